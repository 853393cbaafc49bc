//! Owns the giving back of freed memory to the system, where that is possible.
//! It frees nothing itself.

/// Gives freed memory back. What was read from the store is freed once the catalog is built from it, and lies scattered:
/// half of all the memory, if it is kept.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: it takes no pointer, and locks what it looks at.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

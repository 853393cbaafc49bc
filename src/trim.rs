//! Owns the giving back of memory to the system that was freed or is not wanted again, where that is possible.
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

/// Lets go of a part of the program's own file that was read and is not wanted again soon; what is, is read once more.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn let_go(data: &'static [u8]) {
    // SAFETY: it takes no pointer.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(usize::MAX);
    let start = data.as_ptr_range().start.align_offset(page);
    let whole = data.len().saturating_sub(start) / page * page;
    if let Some(pages) = data.get(start..start + whole).filter(|pages| !pages.is_empty()) {
        // SAFETY: constants are never written to, so that these pages, which hold nothing else, are as the file has them.
        unsafe { libc::madvise(pages.as_ptr().cast_mut().cast(), pages.len(), libc::MADV_DONTNEED) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn let_go(_: &'static [u8]) {}

//! Owns the giving back of memory to the system that was freed or is not wanted again, where that is possible.
//! It frees nothing itself.

/// Gives freed memory back, and lets go of the program's own file. What was read from the store is freed once the catalog is
/// built from it, and lies scattered: half of all the memory, if it is kept.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: it takes no pointer, and locks what it looks at.
    unsafe { libc::malloc_trim(0) };
    // SAFETY: `let_go` is what is called back, and takes no data.
    unsafe { libc::dl_iterate_phdr(Some(let_go), std::ptr::null_mut()) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

/// Lets go of the code and the constants of the program, which is the first object there is: of what starting, reading and
/// building take, little is wanted again. What is comes back from the system's own copy of the file, some microseconds each;
/// only breakpoints that a debugger has set do not.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
unsafe extern "C" fn let_go(object: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> libc::c_int {
    const LAST: libc::c_int = 1;
    let page = page_size();
    // SAFETY: the loader gives an object that is there for as long as it is looked at, with so many segments.
    let (base, segments) = unsafe {
        let object = &*object;
        (object.dlpi_addr as usize, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    for segment in segments.iter().filter(|one| one.p_type == libc::PT_LOAD && one.p_flags & libc::PF_W == 0) {
        let start = base + segment.p_vaddr as usize;
        let (first, end) = (start.next_multiple_of(page), (start + segment.p_filesz as usize) / page * page);
        if first < end {
            // SAFETY: what cannot be written to is as the file has it, whenever it is read.
            unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_DONTNEED) };
        }
    }
    LAST
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn page_size() -> usize {
    // SAFETY: it takes no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("BUG: the system has pages")
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    static CONSTANTS: [u8; 1 << 20] = [7; 1 << 20];

    /// How many bytes of the constants take up memory.
    fn present() -> usize {
        let page = page_size();
        let mut entries = vec![0_u8; 8 * CONSTANTS.len() / page];
        let at = 8 * (CONSTANTS.as_ptr().addr() / page) as u64;
        File::open("/proc/self/pagemap").unwrap().read_exact_at(&mut entries, at).unwrap();
        page * entries.as_chunks::<8>().0.iter().filter(|entry| entry[7] & 0x80 > 0).count()
    }

    fn sum() -> usize {
        CONSTANTS.iter().map(|value| usize::from(std::hint::black_box(*value))).sum()
    }

    #[test]
    fn what_was_read_of_the_program_is_let_go_and_comes_back() {
        // A neighbour that another test reads may bring some pages back at once.
        let lets_go = || {
            assert_eq!(sum(), 7 * CONSTANTS.len());
            let before = present();
            give_back();
            present() + CONSTANTS.len() / 2 < before
        };
        assert!((0..1000).any(|_| lets_go()));
        assert_eq!(sum(), 7 * CONSTANTS.len());
    }
}

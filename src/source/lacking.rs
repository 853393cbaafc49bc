//! Owns the look at a program that the system says is not there, though its file is. It starts nothing.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How much of a first line the system reads.
const FIRST_LINE: u64 = 256;

/// What a program needs that is not there.
#[derive(Debug, PartialEq, Eq)]
pub enum Lacking {
    /// What the first line of a script names.
    Interpreter(String),
    /// What loads a program of the machine.
    Loader,
}

/// What the program behind a command lacks; `None` where the program itself is not there, or nothing can be found out.
pub fn lacking(command: &str, path: &str, cwd: &Path) -> Option<Lacking> {
    let file = find(command, path, cwd)?;
    let mut start = Vec::new();
    File::open(&file).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    if start.starts_with(b"\x7fELF") {
        return Some(Lacking::Loader);
    }
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let interpreter = line.trim_matches([' ', '\t']).split([' ', '\t']).next()?;
    (!cwd.join(interpreter).exists()).then(|| Lacking::Interpreter(interpreter.to_owned()))
}

/// The file that the system looked at.
fn find(command: &str, path: &str, cwd: &Path) -> Option<PathBuf> {
    if command.contains(std::path::MAIN_SEPARATOR) {
        return Some(cwd.join(command)).filter(|file| file.is_file());
    }
    let mut files = std::env::split_paths(path).map(|folder| cwd.join(folder).join(command));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let interpreter = |name: &str| Some(Lacking::Interpreter(name.to_owned()));
        let check = |content: &[u8], want: Option<Lacking>| {
            std::fs::write(folder.path().join("it"), content).unwrap();
            let path = format!("/nowhere:{}", folder.path().display());
            for (command, path, cwd) in [("it", &*path, "/"), ("./it", "", folder.path().to_str().unwrap())] {
                assert_eq!(lacking(command, path, Path::new(cwd)), want, "{:?}", String::from_utf8_lossy(content));
            }
        };
        check(b"#!/gone/bin/python3\nprint(1)\n", interpreter("/gone/bin/python3"));
        check(b"#! \t/gone/bin/env  -S python3 -u", interpreter("/gone/bin/env"));
        check(b"#!/bin/sh\r\necho\r\n", interpreter("/bin/sh\r"));
        check(b"#!/bin/sh\n", None);
        check(b"\x7fELF\x02\x01", Some(Lacking::Loader));
        check(b"echo", None);
        check(b"", None);
        assert_eq!(lacking("none", &folder.path().display().to_string(), Path::new("/")), None);
        assert_eq!(lacking(folder.path().to_str().unwrap(), "", Path::new("/")), None);
    }
}

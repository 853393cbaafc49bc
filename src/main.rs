//! Arguments, then the run, then the exit code.

fn main() {}

//! Arguments, then the run, then the exit code. The only place that prints an error or exits, but
//! for panics.

use std::io::Write;

use toolrelay::{cli, defect, limits};

fn main() {
    defect::watch();
    if let Some(code) = cli::first::stand_in() {
        std::process::exit(code);
    }
    limits::raise();
    let code = match cli::run() {
        Ok(()) => 0,
        Err(failure) => {
            // Nobody may be reading any more; there is nothing left to do about it then.
            let _ = writeln!(std::io::stderr(), "{failure}");
            failure.code()
        }
    };
    // A blocking read of a terminal may still be under way, so the runtime's threads are not waited for.
    std::process::exit(code);
}

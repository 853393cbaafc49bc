//! `toolrelay completions`: a script that completes the command line in a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Failure, output};

#[derive(clap::Args)]
pub struct Arguments {
    /// The shell the script is for
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "toolrelay", &mut script);
    output::text(&String::from_utf8_lossy(&script))
}

//! `hansard completions` and `hansard man`: generated from the command definitions.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{CommandResult, Completion, Hansard};
use crate::error::CliError;
use crate::output::CliOutput;

/// Print a completion script for a shell
///
/// bash: hansard completions bash >~/.local/share/bash-completion/completions/hansard
/// zsh:  hansard completions zsh >~/.zfunc/_hansard    (a folder of your `fpath`)
/// fish: hansard completions fish >~/.config/fish/completions/hansard.fish
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    shell: Shell,
}

/// Write the man pages
///
/// `hansard man ~/.local/share/man/man1` puts them where `man hansard` finds them.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArgs {
    /// The folder for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl CompletionsArgs {
    pub(crate) fn run(&self, output: &mut CliOutput) -> CommandResult {
        let mut command = Hansard::command();
        let mut script = Vec::new();
        // Not straight to stdout: the generator panics if a pipe is closed.
        clap_complete::generate(self.shell, &mut command, "hansard", &mut script);
        output.writer().write_all(&script)?;
        output.flush()?;
        Ok(Completion::Success)
    }
}

impl ManArgs {
    pub(crate) fn run(&self, output: &mut CliOutput) -> CommandResult {
        std::fs::create_dir_all(&self.folder)?;
        let mut command = Hansard::command().disable_help_subcommand(true);
        // Pages are named by their full command, such as `hansard-bus-listen`.
        command.build();
        let count = write_pages(&command, &self.folder)?;
        output.line(format!("{count} pages written to {}", self.folder.display()))?;
        output.flush()?;
        Ok(Completion::Success)
    }
}

/// Writes the page of a command and of its subcommands; returns how many.
fn write_pages(command: &clap::Command, folder: &Path) -> Result<usize, CliError> {
    let page = Man::new(command.clone());
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    std::fs::write(folder.join(page.get_filename()), bytes)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        count += write_pages(below, folder)?;
    }
    Ok(count)
}

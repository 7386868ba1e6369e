// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Completion scripts and the manual page, both made from the command line's own declaration, so that neither can lag
//! behind it. One page for all verbs: an image has no place where several could lie.
use std::fmt::Write as _;

use clap::{Arg, Command};
use clap_complete::shells::{Bash, Fish, Zsh};

use crate::cli;
use crate::cli::client::Shell;

const NAME: &str = "etcd-wrapper";

pub(super) fn completions(shell: Shell) -> String {
    let mut command = cli::command();
    let mut script = Vec::new();
    match shell {
        Shell::Bash => clap_complete::generate(Bash, &mut command, NAME, &mut script),
        Shell::Fish => clap_complete::generate(Fish, &mut command, NAME, &mut script),
        Shell::Zsh => clap_complete::generate(Zsh, &mut command, NAME, &mut script),
    }
    String::from_utf8_lossy(&script).into_owned()
}

/// In roff, section 8: it is for those who run a member.
pub(super) fn manual() -> String {
    let mut command = cli::command();
    command.build();
    let mut page = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(page, ".TH ETCD-WRAPPER 8 \"\" \"etcd-wrapper {version}\" \"etcd-wrapper\"");
    section(&mut page, "NAME");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "etcd\\-wrapper \\- {}", escape(&about));
    section(&mut page, "SYNOPSIS");
    for verb in command.get_subcommands() {
        let _ =
            writeln!(page, ".br\n\\fBetcd\\-wrapper {}\\fR{}", escape(verb.get_name()), escape(&usage(verb)));
    }
    section(&mut page, "DESCRIPTION");
    paragraph(
        &mut page,
        "start-etcd is the server, the main process of an etcd pod; every other verb is a client of one.",
    );
    for verb in command.get_subcommands() {
        section(&mut page, &verb.get_name().to_uppercase());
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        paragraph(&mut page, &format!("{about}."));
        verb.get_arguments().filter(|arg| !arg.is_hide_set()).for_each(|arg| argument(&mut page, arg));
        if let Some(more) = verb.get_after_help() {
            as_it_stands(&mut page, &more.to_string());
        }
    }
    section(&mut page, "EXIT STATUS");
    paragraph(
        &mut page,
        "Of a client: 0 done (status and ready: and ready; leader: and leading), 1 refused or failed, 2 the command \
         line cannot be meant, 3 nobody reached, 4 not ready or not leading, 5 the wait ran out. Of start-etcd: see \
         docs/operations.md.",
    );
    page
}

fn section(page: &mut String, name: &str) {
    let _ = writeln!(page, ".SH \"{}\"", escape(name));
}

fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, ".PP\n{}", escape(text));
}

/// Examples keep their lines, and the text around them flows.
fn as_it_stands(page: &mut String, text: &str) {
    for part in text.split("\n\n") {
        if part.contains("\n  ") {
            let lines: Vec<String> = part.lines().map(escape).collect();
            let _ = writeln!(page, ".PP\n.nf\n{}\n.fi", lines.join("\n"));
        } else {
            paragraph(page, part);
        }
    }
}

fn usage(verb: &Command) -> String {
    let options = if verb.get_arguments().any(|arg| !arg.is_positional() && arg.get_id() != "help") {
        " [OPTIONS]"
    } else {
        ""
    };
    let positional: String = verb.get_positionals().map(|arg| format!(" <{}>", value(arg))).collect();
    format!("{options}{positional}")
}

fn value(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some([name, ..]) => name.to_string(),
        Some([]) | None => arg.get_id().to_string().to_uppercase(),
    }
}

fn argument(page: &mut String, arg: &Arg) {
    let mut names: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let takes_value = arg.get_action().takes_values();
    let head = match (names.is_empty(), takes_value) {
        (true, _) => format!("\\fI{}\\fR", escape(&value(arg))),
        (false, true) => format!("\\fB{}\\fR \\fI{}\\fR", escape(&names.join(", ")), escape(&value(arg))),
        (false, false) => format!("\\fB{}\\fR", escape(&names.join(", "))),
    };
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults = arg.get_default_values().iter().map(|default| default.to_string_lossy());
    let defaults = defaults.collect::<Vec<_>>().join(", ");
    if takes_value && !defaults.is_empty() {
        text.push_str(&format!(" [default: {defaults}]"));
    }
    let choices = arg.get_possible_values();
    // A switch's own are no choice.
    if takes_value && !choices.is_empty() {
        let names = choices.iter().map(|choice| choice.get_name()).collect::<Vec<_>>().join(", ");
        text.push_str(&format!(" [one of: {names}]"));
    }
    let _ = writeln!(page, ".TP\n{head}\n{}", escape(&text));
}

/// Text that roff takes for text: its own signs, dashes that are to be copied, lines that look like requests.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\n', " ");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_every_verb_and_every_flag() {
        let page = manual();
        let mut command = cli::command();
        command.build();
        for verb in command.get_subcommands() {
            assert!(
                page.contains(&format!(".SH \"{}\"", escape(&verb.get_name().to_uppercase()))),
                "{}",
                verb.get_name()
            );
            for long in verb.get_arguments().filter_map(Arg::get_long) {
                assert!(page.contains(&escape(&format!("--{long}"))), "--{long} of {}", verb.get_name());
            }
        }
        assert!(page.lines().all(|line| !line.is_empty()), "an empty line is a break that nobody meant");
    }

    #[test]
    fn each_shell_gets_a_script_of_its_own_with_every_verb() {
        let scripts = [Shell::Bash, Shell::Fish, Shell::Zsh].map(completions);
        for verb in ["start-etcd", "transfer-leadership", "validate-config"] {
            assert!(scripts.iter().all(|script| script.contains(verb)), "{verb}");
        }
        assert!(scripts[0] != scripts[1] && scripts[1] != scripts[2]);
    }

    #[test]
    fn text_cannot_become_a_request() {
        assert_eq!(escape(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(escape("a\\fB--b"), "a\\efB\\-\\-b");
    }
}

// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Go's spelling of flags, rewritten into the one form that clap reads the same way: `--flag=value`. Judges nothing:
//! what it does not know it leaves for clap to complain about.
//!
//! Go takes one or two dashes; a flag with a value swallows the next argument whatever it looks like; a boolean never
//! does; the first argument that is no flag ends the flags.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command};

/// Rewrites what follows a verb; the verb itself and what stands before it stay.
pub(super) fn from_go(args: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let Some(verb) = args.iter().position(|arg| !arg.to_string_lossy().starts_with('-')) else {
        return args;
    };
    let Some(command) = args[verb].to_str().and_then(|name| command.find_subcommand(name)) else {
        return args;
    };
    let mut args = args.into_iter();
    let mut out: Vec<OsString> = args.by_ref().take(verb + 1).collect();
    while let Some(arg) = args.next() {
        let Some((name, inline)) = split(&arg) else {
            out.push(arg);
            break;
        };
        let mut flag = OsString::from(format!("--{name}"));
        let takes_value = long(command, name).is_some_and(needs_value);
        match inline {
            Some(value) => push_value(&mut flag, value),
            None if takes_value => {
                if let Some(value) = args.next() {
                    push_value(&mut flag, &value);
                }
            }
            None => {}
        }
        out.push(flag);
    }
    out.extend(args);
    out
}

/// Name and inline value of a flag; None for anything else, `-`, `--` and short flags among it.
fn split(arg: &OsStr) -> Option<(&str, Option<&OsStr>)> {
    // Only the value may be other than UTF-8: it can be a path.
    let mut parts = arg.as_bytes().splitn(2, |byte| *byte == b'=');
    let dashed = std::str::from_utf8(parts.next()?).ok()?;
    let value = parts.next().map(OsStr::from_bytes);
    let name =
        dashed.strip_prefix("--").or_else(|| dashed.strip_prefix('-').filter(|name| name.len() > 1))?;
    (!name.is_empty() && !name.starts_with('-')).then_some((name, value))
}

fn push_value(flag: &mut OsString, value: &OsStr) {
    flag.push("=");
    flag.push(value);
}

fn long<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

/// Booleans are declared with `require_equals`: their value never is the next argument.
fn needs_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The diagram of phases in docs/concepts.md: its arrows are the machine's own steps, all of them and no other. Only the
//! words at the arrows are written by hand. `E2E_MEND=1` writes the page anew instead of failing.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::{Bench, Settings, explore, found, settings};
use crate::supervise::state::State;
use crate::supervise::view::Phase;

const BEGIN: &str = "<!-- phases: ";
const END: &str = "<!-- end of phases -->";
/// The box around every phase that a shutdown can take the machine out of.
const BOX: &str = "alive";
const EXITING: &str = "exiting";
/// Where the machine begins, and where it ends.
const POINT: &str = "[*]";

type Arrows = BTreeMap<(String, String), String>;

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/concepts.md")
}

fn read() -> String {
    std::fs::read_to_string(page()).expect("docs/concepts.md is part of the clone")
}

/// Text before the block, the block with its marks, text after it.
fn cut(page: &str) -> Option<(&str, &str, &str)> {
    let begin = page.find(BEGIN)?;
    let end = begin + page[begin..].find(END)?;
    Some((&page[..begin], &page[begin..end], &page[end..]))
}

/// The arrows of a block with their words.
fn arrows(block: &str) -> Arrows {
    let arrow = |line: &str| {
        let (from, rest) = line.trim().split_once(" --> ")?;
        let (to, words) = rest.split_once(": ").unwrap_or((rest, ""));
        Some(((from.to_owned(), to.to_owned()), words.to_owned()))
    };
    block.lines().filter_map(arrow).collect()
}

/// What the machine does, in the order of a member's life. All ways to `exiting` are one arrow out of the box.
fn true_arrows() -> Vec<(String, String)> {
    let mut turns = explore::turns();
    // The searches have a sidecar; without one the same steps are left, and another first one.
    let alone = Bench::new(Settings { sidecar: false, ..settings() }, found(false));
    turns.insert((None, alone.state.phase.name().as_str()));
    let phases = || Phase::ALL.iter().map(|phase| phase.as_str());
    let leaving: BTreeSet<_> =
        turns.iter().filter(|(_, to)| *to == EXITING).filter_map(|(from, _)| *from).collect();
    let all: BTreeSet<_> = phases().filter(|phase| *phase != EXITING).collect();
    assert_eq!(leaving, all, "the arrow out of the box stands for all phases in it");
    assert!(!turns.iter().any(|(from, _)| *from == Some(EXITING)), "invariant 4: exiting absorbs");
    let mut arrows = Vec::new();
    for from in [None].into_iter().chain(phases().map(Some)) {
        for to in phases().filter(|to| *to != EXITING && turns.contains(&(from, *to))) {
            arrows.push((from.unwrap_or(POINT).to_owned(), to.to_owned()));
        }
    }
    arrows.push((BOX.to_owned(), EXITING.to_owned()));
    arrows.push((EXITING.to_owned(), POINT.to_owned()));
    arrows
}

fn drawn_anew(old: &str) -> String {
    let words = arrows(old);
    let first = old.lines().next().expect("the mark");
    let mut block =
        format!("{first}\n```mermaid\nstateDiagram-v2\n    {POINT} --> {BOX}\n    state {BOX} {{\n");
    for (from, to) in true_arrows() {
        let inner = from != BOX && from != EXITING;
        if from == BOX {
            block += "    }\n";
        }
        let indent = if inner { "        " } else { "    " };
        let words = words.get(&(from.clone(), to.clone())).filter(|words| !words.is_empty());
        block += &format!(
            "{indent}{from} --> {to}{}\n",
            words.map(|words| format!(": {words}")).unwrap_or_default()
        );
    }
    block + "```\n"
}

#[test]
fn the_diagram_in_the_docs_is_the_machines_own() {
    let page_text = read();
    let (before, block, after) = cut(&page_text).expect("docs/concepts.md has the block of phases");
    let anew = drawn_anew(block);
    if anew == block {
        return;
    }
    if std::env::var_os("E2E_MEND").is_some() {
        std::fs::write(page(), format!("{before}{anew}{after}")).expect("docs/concepts.md can be written");
        return;
    }
    panic!("the diagram in docs/concepts.md is not the machine's; E2E_MEND=1 writes this one:\n{anew}");
}

/// Is a step from one state to the next one that the page shows?
pub(super) fn draws(before: &State, after: &State) -> bool {
    static DRAWN: LazyLock<Arrows> = LazyLock::new(|| arrows(cut(&read()).map_or("", |(_, block, _)| block)));
    let name = |state: &State| match &state.phase {
        super::Phase::Begin => POINT,
        phase => phase.name().as_str(),
    };
    let (from, to) = (name(before), name(after));
    from == to || to == EXITING || DRAWN.contains_key(&(from.to_owned(), to.to_owned()))
}

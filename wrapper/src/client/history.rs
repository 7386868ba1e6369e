// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `history`: how the last processes ended, from the file in the state directory. Asks nobody.
use std::path::Path;

use crate::cli::client::{History, Output};
use crate::config::describe_unreadable;
use crate::exit::history;
use crate::exit::record::ExitRecord;

use super::term::{columns, one_line};
use super::{ClientError, Shown};

pub(super) fn run(asked: &History) -> Result<Shown, ClientError> {
    let records = read(&asked.state_dir)?;
    let text = match asked.output {
        Output::Json => records.iter().map(|record| format!("{}\n", record.line())).collect(),
        Output::Table => table(&records),
    };
    Ok(Shown::done(text))
}

/// Oldest first; none where nothing has ended yet.
pub(super) fn read(state_dir: &Path) -> Result<Vec<ExitRecord>, ClientError> {
    let path = history::path(state_dir);
    // Reading is best effort over there; here somebody wants to know why there is nothing to see.
    match std::fs::metadata(state_dir).and_then(|_| match std::fs::File::open(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }) {
        Ok(()) => Ok(history::read(state_dir)),
        Err(error) => Err(ClientError::Failed(describe_unreadable(&path, &error))),
    }
}

pub(super) fn table(records: &[ExitRecord]) -> String {
    if records.is_empty() {
        return "no process has ended here yet\n".to_owned();
    }
    let head = ["TIME", "CODE", "CAUSE", "PHASE", "GENERATION", "UPTIME", "ETCD", "HINT"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(records.iter().map(row));
    columns(&rows)
}

fn row(record: &ExitRecord) -> Vec<String> {
    let etcd = match &record.etcd {
        None => "-".to_owned(),
        Some(end) => match (end.exit_code, &end.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => signal.clone(),
            (None, None) => "?".to_owned(),
        },
    };
    [
        record.time.clone(),
        record.code.to_string(),
        record.cause.clone(),
        record.phase.clone(),
        record.generation.to_string(),
        record.uptime.clone(),
        etcd,
        record.hint.clone(),
    ]
    .map(|cell| one_line(&cell))
    .to_vec()
}

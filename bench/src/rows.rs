// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The table: which rows there are, in which order they are run, and what each measures. A row that cannot be measured
//! says so in its own words; an error of one is told there and stops no other.
mod begin;
mod events;
mod growth;
mod idle;
mod leader;
mod life;
mod memory;
mod probes;
mod real;
mod restart;
mod size;
mod start;
mod stop;
mod throughput;

use anyhow::Result;

use crate::finding::Row;
use crate::machine::Watch;
use crate::stage::Stage;

/// What one measurement fills: one row, or several that share its runs.
struct Task {
    rows: &'static [(&'static str, &'static str)],
    run: fn(&Stage, &mut [Row]) -> Result<()>,
}

/// In the order in which they are run.
const TASKS: [Task; 15] = [
    Task { rows: &[("10", "binary")], run: size::binary },
    Task { rows: &[("11", "image: wrapper, etcd and etcdctl, one architecture")], run: size::image },
    Task {
        rows: &[
            ("1", "exec to ready, the sidecar answers at once"),
            ("13", "exec to an open port"),
            ("5", "SIGTERM to everything gone"),
        ],
        run: life::run,
    },
    Task { rows: &[("12", "an accepted start to the exec of etcd")], run: begin::run },
    Task { rows: &[("6", "restart of the member to ready")], run: restart::run },
    Task { rows: &[("7", "leader change to subscriber")], run: leader::run },
    Task { rows: &[("3", "memory, idle and after 100,000 probes")], run: memory::run },
    Task { rows: &[("8", "probes at 1,000/s beside 500 idle connections")], run: probes::run },
    Task { rows: &[("14", "10,000 events through 32 streams, 8 readers slow")], run: events::run },
    Task { rows: &[("9", "client throughput through etcd")], run: throughput::run },
    Task { rows: &[("4", "processor time, idle")], run: idle::run },
    Task { rows: &[("2", "exec to ready beside the real sidecar, empty directory")], run: real::run },
    Task { rows: &[("config", "growth: a config of 1 MiB")], run: growth::config },
    Task { rows: &[("files", "growth: a data directory with 100,000 files")], run: growth::files },
    Task { rows: &[("polling", "growth: a day of polling, shortened")], run: growth::polling },
];

/// Ids of all rows, as `--only` takes them.
pub(crate) fn ids() -> Vec<&'static str> {
    let mut ids: Vec<_> = TASKS.iter().flat_map(|task| task.rows.iter().map(|(id, _)| *id)).collect();
    ids.sort_by_key(|id| (id.parse::<u32>().unwrap_or(u32::MAX), *id));
    ids
}

/// Measures all that is wanted; `told` hears of each row when it is done.
pub(crate) fn run(stage: &Stage, mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let mut done = Vec::new();
    for task in &TASKS {
        let wanted = |id: &str| stage.wants(id);
        if !task.rows.iter().any(|(id, _)| wanted(id)) {
            continue;
        }
        let mut rows: Vec<Row> = task.rows.iter().map(|(id, title)| Row::new(id, title)).collect();
        let watch = Watch::start();
        let ran = (task.run)(stage, &mut rows);
        let seen = watch.end();
        crate::interrupted()?;
        for mut row in rows.into_iter().filter(|row| wanted(row.id)) {
            if let Err(error) = &ran {
                row.missing(crate::report::THIS_ROW, format!("{error:#}"));
            }
            row.foreign = seen.foreign;
            let lag = seen.lag_max();
            row.bars = row
                .bars
                .into_iter()
                .map(|bar| if bar.is_worst { bar.unless_late(lag) } else { bar }.unless_crowded(seen.foreign))
                .collect();
            row.lag = (seen.lag_p99(), seen.lag_max());
            row.took = seen.took.as_secs_f64();
            told(&row);
            done.push(row);
        }
    }
    done.sort_by_key(|row| row.id.parse::<u32>().unwrap_or(u32::MAX));
    Ok(done)
}

/// One line on stderr about what is going on.
#[expect(clippy::print_stderr, reason = "progress of minutes of work")]
fn progress(what: &str, run: usize, of: usize) {
    eprintln!("{what}: run {} of {of}", run + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_id() {
        let ids = ids();
        let mut unique = ids.clone();
        unique.dedup();
        assert_eq!(ids, unique);
    }
}

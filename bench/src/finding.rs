// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! What a row of the table brings: figures, bars, plots, and what could not be measured. Values only; the report draws
//! them.
use serde::Serialize;

use crate::stats::{least, median, most};
use crate::verdict::{Bar, Verdict};

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// As `--only` takes it.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) figures: Vec<Figure>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
    #[serde(skip)]
    pub(crate) plots: Vec<Plot>,
    /// Share of all processors (0 to 1) that others used while this was measured.
    pub(crate) foreign: f64,
    /// How late a thread woke that did nothing but wait, in ms: 99th percentile and worst.
    pub(crate) lag: (f64, f64),
    /// Seconds.
    pub(crate) took: f64,
}

/// One quantity, of each candidate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<Series>,
}

/// The runs of one candidate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) of: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) runs: Vec<f64>,
}

/// Something that was not measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Missing {
    pub(crate) what: String,
    pub(crate) why: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// How many calls took no longer than so much, by name: all values in `unit`.
    Distribution { title: String, unit: &'static str, of: Vec<(String, Vec<f64>)> },
    /// Something over time or work.
    Lines { title: String, x: &'static str, unit: &'static str, of: Vec<(String, Vec<(f64, f64)>)> },
    /// Phases one after the other, of each run.
    Phases { title: String, phases: Vec<String>, of: Vec<(String, Vec<f64>)> },
}

impl Row {
    pub(crate) fn new(id: &'static str, title: &'static str) -> Self {
        Self {
            id,
            title,
            figures: Vec::new(),
            bars: Vec::new(),
            missing: Vec::new(),
            notes: Vec::new(),
            plots: Vec::new(),
            foreign: 0.0,
            lag: (0.0, 0.0),
            took: 0.0,
        }
    }

    /// Adds a quantity; candidates without runs are left out.
    pub(crate) fn figure<'a>(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        of: impl IntoIterator<Item = (&'a str, &'a [f64])>,
    ) {
        let series = of.into_iter().filter(|(_, runs)| !runs.is_empty()).map(|(of, runs)| Series {
            of: of.to_owned(),
            median: median(runs),
            min: least(runs),
            max: most(runs),
            runs: runs.to_vec(),
        });
        self.figures.push(Figure { name: name.into(), unit, series: series.collect() });
    }

    pub(crate) fn bar(&mut self, bar: Bar) {
        self.bars.push(bar);
    }

    pub(crate) fn missing(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.missing.push(Missing { what: what.into(), why: why.into() });
    }

    pub(crate) fn has(&self, verdict: Verdict) -> bool {
        self.bars.iter().any(|bar| bar.verdict == verdict)
    }
}

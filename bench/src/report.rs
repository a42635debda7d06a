//! Figures of a run, for people and for programs.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub name: String,
    pub figures: Vec<Figure>,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Figure {
    pub what: Cow<'static, str>,
    pub value: f64,
    pub unit: Cow<'static, str>,
}

impl Report {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), figures: Vec::new(), notes: Vec::new() }
    }

    pub fn add(&mut self, what: &'static str, value: f64, unit: &'static str) {
        self.figures.push(Figure { what: what.into(), value, unit: unit.into() });
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub fn json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// A value as the tables show it.
pub fn number(value: f64, unit: &str) -> String {
    let decimals = if value >= 100.0 || value.fract() == 0.0 { 0 } else { 2 };
    format!("{value:.decimals$} {unit}").trim_end().to_owned()
}

/// Rows of a Markdown table, which reads well in a terminal too.
impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            let number = number(figure.value, &figure.unit);
            writeln!(formatter, "| {} | {} | {number} |", self.name, figure.what)?;
        }
        for note in &self.notes {
            writeln!(formatter, "| {} | note | {} |", self.name, note.replace(['\n', '|'], " "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_as_rows_and_as_json() {
        let mut report = Report::new("creates");
        report.add("rate", 4021.4, "/s");
        report.add("p50", 1.256, "ms");
        report.add("errors", 0.0, "");
        report.note("a | b");
        assert_eq!(
            report.to_string(),
            "| creates | rate | 4021 /s |\n| creates | p50 | 1.26 ms |\n| creates | errors | 0 |\n| creates | note | a   b |\n"
        );
        let read: Report = serde_json::from_value(report.json().unwrap()).unwrap();
        assert_eq!(read.to_string(), report.to_string());
    }
}

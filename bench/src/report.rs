//! Figures of a run, for people and for programs.

use std::fmt;

use serde_json::{Map, Value, json};

#[derive(Debug)]
pub struct Report {
    name: String,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
}

impl Report {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), figures: Vec::new(), notes: Vec::new() }
    }

    pub fn add(&mut self, what: &'static str, value: f64, unit: &'static str) {
        self.figures.push(Figure { what, value, unit });
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub fn json(&self) -> Value {
        let figures: Map<String, Value> = self
            .figures
            .iter()
            .map(|figure| (figure.what.to_owned(), json!({"value": figure.value, "unit": figure.unit})))
            .collect();
        json!({"name": self.name, "figures": figures, "notes": self.notes})
    }
}

/// Rows of a Markdown table, which reads well in a terminal too.
impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            let decimals = if figure.value >= 100.0 || figure.value.fract() == 0.0 { 0 } else { 2 };
            let number = format!("{:.decimals$} {}", figure.value, figure.unit);
            writeln!(formatter, "| {} | {} | {} |", self.name, figure.what, number.trim_end())?;
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
        assert_eq!(report.json()["figures"]["p50"], json!({"value": 1.256, "unit": "ms"}));
    }
}

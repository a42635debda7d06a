//! Reports of ours, and of a peer where there is one, as one table.

use std::fmt;

use crate::report::{Report, number};

#[derive(Debug)]
pub struct Comparison {
    rows: Vec<Row>,
    has_peer: bool,
}

/// One figure in all the runs that have it.
#[derive(Debug)]
struct Row {
    name: String,
    what: String,
    unit: String,
    ours: Vec<f64>,
    peer: Vec<f64>,
}

impl Comparison {
    pub fn new(ours: Vec<Report>, peer: Option<Vec<Report>>) -> Self {
        let mut comparison = Self { rows: Vec::new(), has_peer: peer.is_some() };
        for report in ours {
            comparison.absorb(report, |row| &mut row.ours);
        }
        for report in peer.into_iter().flatten() {
            comparison.absorb(report, |row| &mut row.peer);
        }
        comparison
    }

    fn absorb(&mut self, report: Report, side: fn(&mut Row) -> &mut Vec<f64>) {
        for figure in report.figures {
            let known = self.rows.iter().position(|row| row.name == report.name && row.what == figure.what);
            let index = known.unwrap_or(self.rows.len());
            if known.is_none() {
                let (what, unit) = (figure.what.into_owned(), figure.unit.into_owned());
                self.rows.push(Row { name: report.name.clone(), what, unit, ours: Vec::new(), peer: Vec::new() });
            }
            side(&mut self.rows[index]).push(figure.value);
        }
    }
}

impl Row {
    /// How many times better ours is; `None` where neither more nor less is better.
    fn factor(&self) -> Option<f64> {
        let (ours, peer) = (median(&self.ours)?, median(&self.peer)?);
        let factor = match self.unit.as_str() {
            _ if self.what.starts_with("load generator") => return None,
            "/s" => ours / peer,
            "ms" | "MB" => peer / ours,
            _ => return None,
        };
        factor.is_finite().then_some(factor)
    }

    fn side(&self, values: &[f64]) -> String {
        median(values).map(|value| number(value, &self.unit)).unwrap_or_default()
    }
}

/// The value in the middle, the lower of two.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_peer {
            writeln!(formatter, "| what | figure | quorate | peer | better by |\n|---|---|---|---|---|")?;
        } else {
            writeln!(formatter, "| what | figure | value |\n|---|---|---|")?;
        }
        for row in &self.rows {
            write!(formatter, "| {} | {} | {} |", row.name, row.what, row.side(&row.ours))?;
            if self.has_peer {
                let factor = row.factor().map(|factor| format!("{factor:.1} ×")).unwrap_or_default();
                write!(formatter, " {} | {factor} |", row.side(&row.peer))?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rate: f64, latency: f64) -> Report {
        let mut report = Report::new("creates");
        report.add("rate", rate, "/s");
        report.add("p50", latency, "ms");
        report.add("errors", 0.0, "");
        report
    }

    #[test]
    fn medians_stand_beside_each_other_and_a_factor_above_one_is_in_our_favour() {
        let ours = vec![report(900.0, 1.0), report(100.0, 5.0), report(300.0, 2.0)];
        let table = Comparison::new(ours, Some(vec![report(100.0, 8.0)])).to_string();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| creates | rate | 300 /s | 100 /s | 3.0 × |",
                "| creates | p50 | 2 ms | 8 ms | 4.0 × |",
                "| creates | errors | 0 | 0 |  |",
            ]
        );
    }

    #[test]
    fn a_figure_without_a_peer_stands_alone() {
        let mut own = report(1.0, 1.0);
        own.name = "nodes".to_owned();
        let table = Comparison::new(vec![own], Some(vec![report(2.0, 2.0)])).to_string();
        assert!(table.contains("| nodes | rate | 1 /s |  |  |\n"), "{table}");
        assert!(table.contains("| creates | rate |  | 2 /s |  |\n"), "{table}");
        let alone = Comparison::new(vec![report(1.5, 1.0)], None).to_string();
        assert!(alone.ends_with("| creates | rate | 1.50 /s |\n| creates | p50 | 1 ms |\n| creates | errors | 0 |\n"));
    }
}

//! What was measured, as a table for people or as JSON.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// Everything one run measured, in the order it was measured.
#[derive(Default)]
pub(crate) struct Report {
    notes: Vec<(String, String)>,
    rows: Vec<Row>,
    growths: Vec<Growth>,
}

/// One measure: ours against a floor beside it.
pub(crate) struct Row {
    pub(crate) measure: String,
    pub(crate) ours: Quantity,
    pub(crate) floor: Option<Quantity>,
    /// What the bar is about. Absent where there is nothing to compare with.
    pub(crate) ratio: Option<f64>,
    /// The same in CPU time, where that is known: it says more on a busy machine.
    pub(crate) cpu_ratio: Option<f64>,
    pub(crate) bar: Option<Bar>,
}

/// One measure at growing sizes; its ratio is that of the last to the first.
pub(crate) struct Growth {
    pub(crate) measure: String,
    pub(crate) points: Vec<(u64, Quantity)>,
    pub(crate) bar: Option<Bar>,
}

/// A measured value with its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quantity {
    Time(Duration),
    PerSecond(f64),
    Bytes(u64),
    Count(f64),
}

/// What a ratio has to reach, and where we want it to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    AtMost { must: f64, aim: f64 },
    AtLeast { must: f64, aim: f64 },
}

impl Bar {
    /// A bar without an aim beyond it.
    pub(crate) fn at_most(must: f64) -> Bar {
        Bar::AtMost { must, aim: must }
    }

    fn verdict(self, ratio: f64) -> &'static str {
        let (met, aimed) = match self {
            Bar::AtMost { must, aim } => (ratio <= must, ratio <= aim),
            Bar::AtLeast { must, aim } => (ratio >= must, ratio >= aim),
        };
        match (met, aimed) {
            (true, true) => "met, and its aim",
            (true, false) => "met",
            // An aim is never easier than what must be met, so the fourth case does not occur.
            _ => "MISSED",
        }
    }
}

impl Report {
    /// A line that says what the figures below stand on.
    pub(crate) fn add_note(&mut self, about: &str, text: impl Into<String>) {
        self.notes.push((about.to_owned(), text.into()));
    }

    pub(crate) fn add_row(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn add_growth(&mut self, growth: Growth) {
        self.growths.push(growth);
    }

    pub(crate) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        for (about, text) in &self.notes {
            for (index, line) in text.lines().enumerate() {
                writeln!(out, "{:12} {line}", if index == 0 { about } else { "" })?;
            }
        }
        let mut table = Table::new(&["measure", "ours", "floor", "ratio", "cpu", "bar", "verdict"]);
        for row in &self.rows {
            table.push([
                row.measure.clone(),
                row.ours.to_string(),
                row.floor.map_or_else(String::new, |floor| floor.to_string()),
                row.ratio.map_or_else(String::new, ratio_text),
                row.cpu_ratio.map_or_else(String::new, ratio_text),
                row.bar.map_or_else(String::new, |bar| bar.to_string()),
                verdict(row.bar, row.ratio).to_owned(),
            ]);
        }
        writeln!(out)?;
        table.write(out)?;
        let mut table = Table::new(&["growth", "at", "ratio", "bar", "verdict"]);
        for growth in &self.growths {
            let points = growth.points.iter().map(|(at, of)| format!("{}: {of}", short_count(*at)));
            table.push([
                growth.measure.clone(),
                points.collect::<Vec<_>>().join(" · "),
                growth.ratio().map_or_else(String::new, ratio_text),
                growth.bar.map_or_else(String::new, |bar| bar.to_string()),
                verdict(growth.bar, growth.ratio()).to_owned(),
            ]);
        }
        writeln!(out)?;
        table.write(out)
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        let growths: Vec<Value> = self.growths.iter().map(Growth::to_json).collect();
        let notes: serde_json::Map<String, Value> =
            self.notes.iter().map(|(about, text)| (about.clone(), json!(text))).collect();
        json!({ "notes": notes, "rows": rows, "growth": growths })
    }
}

impl Row {
    /// Ours against the floor, the ratio being that of the two.
    pub(crate) fn against_floor(
        measure: impl Into<String>,
        ours: Quantity,
        floor: Quantity,
    ) -> Row {
        let ratio = Some(ours.value() / floor.value());
        let (measure, floor) = (measure.into(), Some(floor));
        Row { measure, ours, floor, ratio, cpu_ratio: None, bar: None }
    }

    /// A figure that stands alone.
    pub(crate) fn alone(measure: impl Into<String>, ours: Quantity) -> Row {
        let measure = measure.into();
        Row { measure, ours, floor: None, ratio: None, cpu_ratio: None, bar: None }
    }

    #[must_use]
    pub(crate) fn with_bar(self, bar: Bar) -> Row {
        Row { bar: Some(bar), ..self }
    }

    fn to_json(&self) -> Value {
        json!({
            "measure": self.measure,
            "ours": self.ours.to_json(),
            "floor": self.floor.map(Quantity::to_json),
            "ratio": self.ratio,
            "cpu_ratio": self.cpu_ratio,
            "bar": self.bar.map(|bar| bar.to_string()),
            "verdict": verdict(self.bar, self.ratio),
        })
    }
}

impl Growth {
    fn ratio(&self) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        // The points between are for the reader: growth that matters shows at the largest size.
        Some(last.1.value() / first.1.value())
    }

    fn to_json(&self) -> Value {
        let points: Vec<Value> =
            self.points.iter().map(|(at, of)| json!({ "at": at, "ours": of.to_json() })).collect();
        json!({
            "measure": self.measure,
            "points": points,
            "ratio": self.ratio(),
            "bar": self.bar.map(|bar| bar.to_string()),
            "verdict": verdict(self.bar, self.ratio()),
        })
    }
}

impl Quantity {
    fn value(self) -> f64 {
        match self {
            Quantity::Time(time) => time.as_secs_f64(),
            Quantity::PerSecond(value) | Quantity::Count(value) => value,
            Quantity::Bytes(bytes) => bytes as f64,
        }
    }

    fn to_json(self) -> Value {
        let unit = match self {
            Quantity::Time(_) => "s",
            Quantity::PerSecond(_) => "1/s",
            Quantity::Bytes(_) => "B",
            Quantity::Count(_) => "",
        };
        json!({ "value": self.value(), "unit": unit })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value();
        match self {
            Quantity::Time(_) if value >= 1.0 => write!(f, "{value:.2} s"),
            Quantity::Time(_) if value >= 1e-3 => write!(f, "{:.2} ms", value * 1e3),
            Quantity::Time(_) => write!(f, "{:.2} µs", value * 1e6),
            Quantity::PerSecond(_) if value >= 1e4 => write!(f, "{:.1} k/s", value / 1e3),
            Quantity::PerSecond(_) => write!(f, "{value:.0} /s"),
            Quantity::Bytes(_) if value >= 1e6 => write!(f, "{:.1} MB", value / 1e6),
            Quantity::Bytes(_) if value >= 1e4 => write!(f, "{:.1} KB", value / 1e3),
            Quantity::Bytes(bytes) => write!(f, "{bytes} B"),
            Quantity::Count(_) if value.fract() == 0.0 => write!(f, "{value:.0}"),
            Quantity::Count(_) => write!(f, "{value:.4}"),
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::AtMost { must, aim } if must == aim => write!(f, "≤ {must}"),
            Bar::AtMost { must, aim } => write!(f, "≤ {must} (aim {aim})"),
            Bar::AtLeast { must, aim } => write!(f, "≥ {must} (aim {aim})"),
        }
    }
}

fn verdict(bar: Option<Bar>, ratio: Option<f64>) -> &'static str {
    bar.zip(ratio).map_or("", |(bar, ratio)| bar.verdict(ratio))
}

fn ratio_text(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("{ratio:.0}"),
        ratio if ratio >= 0.1 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.4}"),
    }
}

/// A size as it stands beside a point of growth.
fn short_count(count: u64) -> String {
    match count {
        count if count >= 1_000_000 && count % 1_000_000 == 0 => format!("{}M", count / 1_000_000),
        count if count >= 1_000 && count % 1_000 == 0 => format!("{}k", count / 1_000),
        count => count.to_string(),
    }
}

/// Columns as wide as their widest text; also valid Markdown.
struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    fn new(heads: &[&str; N]) -> Table<N> {
        Table { rows: vec![heads.map(str::to_owned)] }
    }

    fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        // Counted in characters: `µ`, `≤` and `·` have several bytes.
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        for (number, row) in self.rows.iter().enumerate() {
            let line =
                |cell: &dyn Fn(usize) -> String| (0..N).map(cell).collect::<Vec<_>>().join(" | ");
            writeln!(out, "| {} |", line(&|at| format!("{:1$}", row[at], widths[at])))?;
            if number == 0 {
                // Markdown needs three dashes under a heading.
                writeln!(out, "| {} |", line(&|at| "-".repeat(widths[at].max(3))))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_follows_from_the_ratio() {
        let bar = Bar::AtMost { must: 2.0, aim: 1.5 };
        assert_eq!(bar.verdict(1.4), "met, and its aim");
        assert_eq!(bar.verdict(1.9), "met");
        assert_eq!(bar.verdict(2.1), "MISSED");
        assert_eq!(Bar::AtLeast { must: 10.0, aim: 30.0 }.verdict(9.0), "MISSED");
    }

    #[test]
    fn growth_compares_its_last_point_with_its_first() {
        let point = |at, millis| (at, Quantity::Time(Duration::from_millis(millis)));
        let points = vec![point(1, 10), point(10, 30), point(100, 20)];
        let growth = Growth { measure: "a".to_owned(), points, bar: None };
        assert_eq!(growth.ratio(), Some(2.0));
    }

    #[test]
    fn a_table_reads_as_markdown() {
        let mut report = Report::default();
        let time = |millis| Quantity::Time(Duration::from_millis(millis));
        report.add_row(Row::against_floor("append", time(3), time(2)).with_bar(Bar::at_most(2.0)));
        let mut out = Vec::new();
        report.write_table(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("| append  | 3.00 ms | 2.00 ms | 1.50  |     | ≤ 2 |"), "{text}");
    }
}

//! The picture: live and held bytes by subsystem over time, as an SVG of two stacked areas.
//!
//! ```text
//! live bytes │      ▒▒▒▒            one area a subsystem, one upon the other, so that the
//!            │  ▒▒▒▒▓▓▓▓▒▒▒▒        upper edge is the sum
//!            └───────────────
//! held bytes │  ▒▒▒▒▒▒▒▒▒▒▒▒        the same scale, so that the two compare
//!            │  ▓▓▓▓▓▓▓▓▓▓▓▓
//!            └─────────────── seconds
//! ```
//!
//! There are eight colours. With more subsystems the seven that held most have one each, and the rest
//! is one area. Long histories are drawn with one column of samples for every two pixels, each with the
//! sample that has the largest sum.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `history` and `bytes`; `page` shows it and has the colours.

use core::fmt::{self, Write};

use crate::bytes::Bytes;
use crate::page::Escaped;
use crate::{History, Sample, SamplePoint};

/// Colours of areas; the page's style sheet has as many.
pub(crate) const COLOURS: usize = 8;

/// Name of the area of those that have no colour of their own.
const REST: &str = "all others";

const WIDTH: f64 = 960.0;
const LEFT: f64 = 100.0;
const RIGHT: f64 = 24.0;
const PANEL_HEIGHT: f64 = 210.0;
/// Tops of the two panels.
const PANEL_TOPS: [f64; 2] = [34.0, 292.0];
const HEIGHT: f64 = 560.0;
/// Distance of the lower panel's tick labels and the axis's name from its bottom.
const TICK_DROP: f64 = 20.0;
const AXIS_NAME_DROP: f64 = 44.0;

/// The shortest time that a picture spans, so that samples of one moment have a place in it.
const SPAN_SECONDS_MIN: f64 = 0.001;

const COLUMNS_MAX: usize = 400;
const BYTE_TICKS: usize = 4;
const SECOND_TICKS: f64 = 8.0;

/// The areas of a picture and which subsystem is in which.
pub(crate) struct Areas {
    /// Names, the lowest area's first.
    pub(crate) names: Vec<&'static str>,
    /// Area of each subsystem, by its place in the registry.
    pub(crate) of_place: Vec<usize>,
}

/// Part of a point that a panel shows.
type Part = fn(&SamplePoint) -> usize;

const PANELS: [(&str, Part); 2] =
    [("live bytes", |point| point.live_bytes), ("held bytes", |point| point.held_bytes)];

impl Areas {
    /// Gives each subsystem an area.
    pub(crate) fn of(history: &History) -> Areas {
        let names = &history.names;
        if names.len() <= COLOURS {
            return Areas { names: names.clone(), of_place: (0..names.len()).collect() };
        }
        let most_held = |place: usize| {
            history.samples.iter().map(|sample| sample.point(place).held_bytes).max()
        };
        let mut ranked: Vec<usize> = (0..names.len()).collect();
        ranked.sort_by_key(|&place| core::cmp::Reverse(most_held(place)));
        let mut own = ranked[..COLOURS - 1].to_vec();
        own.sort_unstable();
        let area = |place| own.iter().position(|&other| other == place).unwrap_or(COLOURS - 1);
        Areas {
            names: own.iter().map(|&place| names[place]).chain([REST]).collect(),
            of_place: (0..names.len()).map(area).collect(),
        }
    }

    /// Returns the sums of a sample's points by area.
    fn sums(&self, sample: &Sample, part: Part) -> Vec<usize> {
        let mut sums = vec![0; self.names.len()];
        for (point, &area) in sample.points().iter().zip(&self.of_place) {
            sums[area] += part(point);
        }
        sums
    }
}

/// The scales of a picture: which moment and how many bytes are where.
struct Scale {
    first_seconds: f64,
    span_seconds: f64,
    top_bytes: usize,
    step_bytes: usize,
}

impl Scale {
    fn of(samples: &[Sample]) -> Scale {
        let most =
            samples.iter().map(|sample| sum(sample, PANELS[1].1).max(sum(sample, PANELS[0].1)));
        let most_bytes = most.max().unwrap_or(0).max(BYTE_TICKS);
        let step_bytes = most_bytes.div_ceil(BYTE_TICKS).next_power_of_two();
        let seconds =
            |sample: Option<&Sample>| sample.map_or(0.0, |sample| sample.at.as_secs_f64());
        let first_seconds = seconds(samples.first());
        let span_seconds = (seconds(samples.last()) - first_seconds).max(SPAN_SECONDS_MIN);
        let top_bytes = most_bytes.div_ceil(step_bytes) * step_bytes;
        Scale { first_seconds, span_seconds, top_bytes, step_bytes }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (seconds - self.first_seconds) / self.span_seconds * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, top: f64, bytes: usize) -> f64 {
        top + PANEL_HEIGHT * (1.0 - bytes as f64 / self.top_bytes as f64)
    }

    /// Returns the seconds from tick to tick: 1, 2 or 5 times a power of ten.
    fn step_seconds(&self) -> f64 {
        let least = self.span_seconds / SECOND_TICKS;
        let power = 10f64.powf(least.log10().floor());
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least);
        factor.unwrap_or(10.0) * power
    }
}

/// Writes the picture; a sentence in its place when there are too few samples.
pub(crate) fn write_chart(page: &mut String, history: &History, areas: &Areas) -> fmt::Result {
    let samples = &history.samples;
    if samples.len() < 2 {
        return page
            .write_str("<p class=\"empty\">No picture: it takes two samples at least.</p>\n");
    }
    let scale = Scale::of(samples);
    writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"chart-title\">\n\
         <title id=\"chart-title\">Live and held bytes by subsystem over time</title>"
    )?;
    for ((name, part), top) in PANELS.into_iter().zip(PANEL_TOPS) {
        write_byte_axis(page, &scale, name, top)?;
        write_areas(page, &scale, areas, &columns(samples, part), part, top)?;
        write_second_axis(page, &scale, top + PANEL_HEIGHT)?;
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let bottom = PANEL_TOPS[1] + PANEL_HEIGHT + AXIS_NAME_DROP;
    writeln!(
        page,
        "<text class=\"axis\" x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">\
         seconds since the recorder was made</text>\n</svg>"
    )
}

/// Returns the samples to draw: all, or of each group the one with the largest sum.
fn columns(samples: &[Sample], part: Part) -> Vec<&Sample> {
    let group = samples.len().div_ceil(COLUMNS_MAX);
    let largest = |group: &'_ [Sample]| {
        let ranked = group.iter().enumerate().max_by_key(|(_, sample)| sum(sample, part));
        ranked.map_or(0, |(place, _)| place)
    };
    let mut drawn: Vec<&Sample> =
        samples.chunks(group).map(|group| &group[largest(group)]).collect();
    // The ends stay where they are, so that the areas fill the scale.
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        drawn.insert(0, first);
        drawn.push(last);
    }
    drawn
}

fn sum(sample: &Sample, part: Part) -> usize {
    sample.points().iter().map(part).sum()
}

fn write_byte_axis(page: &mut String, scale: &Scale, name: &str, top: f64) -> fmt::Result {
    for bytes in (0..=scale.top_bytes).step_by(scale.step_bytes) {
        let (y, end) = (scale.y(top, bytes), WIDTH - RIGHT);
        writeln!(
            page,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            Bytes(bytes)
        )?;
    }
    let middle = top + PANEL_HEIGHT / 2.0;
    writeln!(
        page,
        "<text class=\"axis\" transform=\"translate(18 {middle}) rotate(-90)\" \
         text-anchor=\"middle\">{name}</text>"
    )
}

fn write_second_axis(page: &mut String, scale: &Scale, bottom: f64) -> fmt::Result {
    let step = scale.step_seconds();
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let first = (scale.first_seconds / step).ceil() as u64;
    let last = ((scale.first_seconds + scale.span_seconds) / step).floor() as u64;
    for tick in first..=last {
        let seconds = tick as f64 * step;
        let x = scale.x(seconds);
        writeln!(
            page,
            "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{seconds:.decimals$}</text>",
            bottom + 5.0,
            bottom + TICK_DROP
        )?;
    }
    Ok(())
}

/// Writes one area a name: its upper edge from left to right, its lower edge back.
fn write_areas(
    page: &mut String,
    scale: &Scale,
    areas: &Areas,
    columns: &[&Sample],
    part: Part,
    top: f64,
) -> fmt::Result {
    let mut lower = vec![0; columns.len()];
    let sums: Vec<Vec<usize>> = columns.iter().map(|sample| areas.sums(sample, part)).collect();
    for (area, name) in areas.names.iter().enumerate() {
        let upper: Vec<usize> =
            lower.iter().zip(&sums).map(|(below, sums)| below + sums[area]).collect();
        write!(page, "<path class=\"c{area}\" d=\"")?;
        let mut command = 'M';
        let rightward = columns.iter().zip(&upper);
        let leftward = columns.iter().zip(&lower).rev();
        for (sample, &bytes) in rightward.chain(leftward) {
            let (x, y) = (scale.x(sample.at.as_secs_f64()), scale.y(top, bytes));
            write!(page, "{command}{x:.1} {y:.1}")?;
            command = 'L';
        }
        writeln!(page, "Z\"><title>{}</title></path>", Escaped(name))?;
        lower = upper;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Areas, COLUMNS_MAX, write_chart};
    use crate::{History, Sample, subsystem};

    subsystem! { static DRAWN: "drawn"; }

    fn chart(moments: impl Iterator<Item = Duration>) -> String {
        let history = History::of(moments.map(Sample::take).collect());
        let mut chart = String::new();
        assert!(write_chart(&mut chart, &history, &Areas::of(&history)).is_ok());
        chart
    }

    /// Returns the seconds at the ticks.
    fn ticks(chart: &str) -> Vec<&str> {
        let lines = chart.lines().filter(|line| line.starts_with("<line class=\"tick\""));
        lines.filter_map(|line| line.rsplit('>').nth(1)?.strip_suffix("</text")).collect()
    }

    #[test]
    fn samples_of_one_moment_have_a_picture() {
        let text = DRAWN.vec_from([0u8; 100]);
        let chart = chart([Duration::from_secs(5); 3].into_iter());
        assert!(!chart.contains("NaN") && !chart.contains("inf"), "{chart}");
        drop(text);
    }

    #[test]
    fn ticks_are_round_numbers_of_the_time_shown() {
        let seconds = chart((0..=10).map(|at| Duration::from_millis(700 + 100 * at)));
        let once = ["0.8", "1.0", "1.2", "1.4", "1.6"];
        assert_eq!(ticks(&seconds), [once, once].concat());
        let hours = chart((0..=10).map(|at| Duration::from_secs(3600 * at)));
        assert_eq!(ticks(&hours)[..3], ["0", "5000", "10000"]);
    }

    #[test]
    fn long_histories_are_drawn_with_few_columns() {
        let chart = chart((0..10_000).map(Duration::from_secs));
        let points = chart.lines().filter(|line| line.starts_with("<path"));
        for path in points {
            let columns = path.matches('L').count() + 1;
            assert!((COLUMNS_MAX..=2 * (COLUMNS_MAX + 2)).contains(&columns), "{columns}");
        }
        assert!(ticks(&chart).contains(&"8000"));
    }
}

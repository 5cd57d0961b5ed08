//! The report as a web page: one file, no script, nothing loaded from elsewhere.
//!
//! Its style sheet has a set of colours for light screens and one for dark screens.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `report`, `table` and `chart`.

use core::fmt::{self, Write};

use crate::bytes::Bytes;
use crate::chart::{Areas, write_chart};
use crate::table::{HEADS, Row, process_rows, subsystem_rows};
use crate::{History, Report};

const STYLE: &str = include_str!("page.css");

impl Report {
    /// Returns the report as a web page: a picture of live and held bytes by subsystem over time, with
    /// what `history` has, and the table. It loads nothing and runs no script.
    ///
    /// # Examples
    /// ```
    /// use polyheap_subsystem::{Recorder, report, subsystem};
    ///
    /// subsystem! { static PARSER: "parser"; }
    ///
    /// let recorder = Recorder::new();
    /// (0..3).for_each(|_| recorder.sample());
    /// let page = report().to_html(&recorder.history());
    /// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("parser"));
    /// ```
    pub fn to_html(&self, history: &History) -> String {
        let mut page = String::new();
        // A string refuses nothing.
        let _ = self.write_page(&mut page, history);
        page
    }

    fn write_page(&self, page: &mut String, history: &History) -> fmt::Result {
        let areas = Areas::of(history);
        write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Memory by subsystem</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>Memory by subsystem</h1>\n\
             <p>{} live in {} subsystems; {} held by the process.</p>\n<figure>\n",
            Bytes(self.live_bytes()),
            self.subsystems.len(),
            Bytes(self.held_bytes())
        )?;
        write_legend(page, &areas)?;
        write_chart(page, history, &areas)?;
        page.write_str("</figure>\n<div class=\"wide\">\n<table>\n<thead><tr>")?;
        for head in HEADS {
            write!(page, "<th scope=\"col\">{head}</th>")?;
        }
        page.write_str("</tr></thead>\n<tbody>\n")?;
        for (place, row) in subsystem_rows(self).iter().enumerate() {
            write_row(page, row, areas.of_place.get(place).copied())?;
        }
        page.write_str("</tbody>\n<tfoot>\n")?;
        for row in process_rows(self) {
            write_row(page, &row, None)?;
        }
        page.write_str("</tfoot>\n</table>\n</div>\n</body>\n</html>\n")
    }
}

/// Text with what HTML reads as markup spelt out.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

fn write_legend(page: &mut String, areas: &Areas) -> fmt::Result {
    page.write_str("<ul class=\"legend\">\n")?;
    for (area, name) in areas.names.iter().enumerate() {
        writeln!(page, "<li><i class=\"c{area}\"></i>{}</li>", Escaped(name))?;
    }
    page.write_str("</ul>\n")
}

/// Writes a row, with the colour of its area before the name.
fn write_row(page: &mut String, row: &Row, area: Option<usize>) -> fmt::Result {
    page.write_str("<tr><th scope=\"row\">")?;
    if let Some(area) = area {
        write!(page, "<i class=\"c{area}\"></i>")?;
    }
    write!(page, "{}</th>", Escaped(&row[0]))?;
    for text in &row[1..] {
        write!(page, "<td>{}</td>", Escaped(text))?;
    }
    page.write_str("</tr>\n")
}

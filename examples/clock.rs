//! A clock: the time, conversions between UTC offsets, and a wait that reports progress and can be cancelled.
//!
//! ```toml
//! [source.clock]
//! command = "target/debug/examples/clock"
//! ```
//!
//! `wait` is the one to watch a relay with: its progress must arrive in order and before the result, and a cancelled
//! wait must end at once.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Implementation, ProgressNotificationParam, ServerCapabilities, ServerConfig};
use rmcp::service::RequestContext;
use rmcp::{Json, RoleServer, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Time between two progress notifications of `wait`.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// The longest `wait` there is: an hour.
const MAX_WAIT_SECONDS: f64 = 3600.0;

const MINUTES_A_DAY: i64 = 24 * 60;

#[derive(Deserialize, JsonSchema)]
struct Now {
    /// The UTC offset to tell the time in, such as `+02:00` or `Z`; UTC if absent.
    offset: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Convert {
    /// Date and time, such as `2026-07-28T09:30`.
    time: String,
    /// The UTC offset it is told in, such as `-05:00`.
    from: String,
    /// The UTC offset to tell it in.
    to: String,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    /// How long, at most 3600.
    seconds: f64,
}

#[derive(Serialize, JsonSchema)]
struct Told {
    /// Date and time with its offset (RFC 3339).
    time: String,
    /// Seconds since 1970-01-01T00:00:00Z.
    unix: i64,
}

#[derive(Serialize, JsonSchema)]
struct Waited {
    /// Seconds that went by.
    seconds: f64,
}

#[derive(Clone)]
struct Clock;

#[tool_router]
impl Clock {
    #[tool(
        description = "The time now, in UTC or at an offset.",
        annotations(title = "Now", read_only_hint = true, open_world_hint = false)
    )]
    fn now(&self, Parameters(Now { offset }): Parameters<Now>) -> Result<Json<Told>, String> {
        let offset = offset.map_or(Ok(0), |text| parse_offset(&text))?;
        let unix =
            SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970")?.as_secs() as i64;
        Ok(Json(Told { time: format_time(unix, offset), unix }))
    }

    #[tool(
        description = "Convert a date and time from one UTC offset to another.",
        annotations(title = "Convert a time", read_only_hint = true, idempotent_hint = true, open_world_hint = false)
    )]
    fn convert(&self, Parameters(Convert { time, from, to }): Parameters<Convert>) -> Result<Json<Told>, String> {
        let unix = parse_time(&time)? - parse_offset(&from)? * 60;
        Ok(Json(Told { time: format_time(unix, parse_offset(&to)?), unix }))
    }

    #[tool(
        description = "Wait, with progress ten times a second. Can be cancelled.",
        annotations(title = "Wait", read_only_hint = true, open_world_hint = false)
    )]
    async fn wait(
        &self,
        Parameters(Wait { seconds }): Parameters<Wait>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Waited>, String> {
        if !(0.0..=MAX_WAIT_SECONDS).contains(&seconds) {
            return Err(format!("`seconds` must be from 0 to {MAX_WAIT_SECONDS}, not {seconds}"));
        }
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(seconds);
        let token = context.meta.get_progress_token();
        loop {
            let next = end.min(Instant::now() + PROGRESS_EVERY);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = context.ct.cancelled() => return Err("cancelled".to_owned()),
            }
            let waited = start.elapsed().as_secs_f64();
            if next == end {
                return Ok(Json(Waited { seconds: waited }));
            }
            if let Some(token) = &token {
                let progress = ProgressNotificationParam::new(token.clone(), waited).with_total(seconds);
                context.peer.notify_progress(progress).await.map_err(|fault| fault.to_string())?;
            }
        }
    }
}

/// Minutes east of UTC.
fn parse_offset(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no UTC offset; write `Z`, `+02:00` or `-05:30`");
    if matches!(text, "Z" | "z" | "UTC") {
        return Ok(0);
    }
    let (sign, digits) = match text.split_at_checked(1) {
        Some(("+", digits)) => (1, digits),
        Some(("-", digits)) => (-1, digits),
        _ => return Err(wrong()),
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    match (hours.parse::<i64>(), minutes.parse::<i64>()) {
        (Ok(hours @ 0..=14), Ok(minutes @ 0..=59)) => Ok(sign * (hours * 60 + minutes)),
        _ => Err(wrong()),
    }
}

/// Seconds since 1970 of a date and time, as if it were told in UTC.
fn parse_time(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no date and time; write `2026-07-28T09:30`");
    let (date, time) = text.split_once(['T', ' ']).ok_or_else(wrong)?;
    let numbers = |text: &str, by: char| text.split(by).map(str::parse::<i64>).collect::<Result<Vec<_>, _>>();
    let date = numbers(date, '-').map_err(|_| wrong())?;
    let time = numbers(time, ':').map_err(|_| wrong())?;
    let (&[year @ 1..=9999, month @ 1..=12, day @ 1..=31], &[hour @ 0..=23, minute @ 0..=59, ref rest @ ..]) =
        (date.as_slice(), time.as_slice())
    else {
        return Err(wrong());
    };
    let second = match rest {
        [] => 0,
        [second @ 0..=59] => *second,
        _ => return Err(wrong()),
    };
    let days = days_from_civil(year, month, day);
    if civil_from_days(days) != (year, month, day) {
        return Err(format!("there is no day {day} in month {month} of {year}"));
    }
    Ok((days * MINUTES_A_DAY + hour * 60 + minute) * 60 + second)
}

fn format_time(unix: i64, offset: i64) -> String {
    let local = unix + offset * 60;
    let (days, second) = (local.div_euclid(MINUTES_A_DAY * 60), local.rem_euclid(MINUTES_A_DAY * 60));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{sign}{hours:02}:{minutes:02}")
}

/// Days since 1970-01-01 in the Gregorian calendar, counting years from March so that a leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[tool_handler]
impl ServerHandler for Clock {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("clock", env!("CARGO_PKG_VERSION")))
            .with_instructions("Tells the time and waits. Offsets are written as +02:00; there are no zone names here.")
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let session = Clock.serve(rmcp::transport::stdio()).await?;
    session.waiting().await?;
    Ok(())
}

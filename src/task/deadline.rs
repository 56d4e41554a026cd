//! When a command is stopped: what the caller asked for, within the configured bounds.
//! Pure.

use std::time::Duration;

/// The configured bounds.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutBounds {
    /// Without a word of the caller.
    pub default: Duration,
    /// The most a caller may ask for.
    pub most: Duration,
    /// Whether a caller may ask for none.
    pub none_allowed: bool,
}

/// What kind of command asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One that ends by itself.
    Plain,
    /// One that takes input (`stdin_open`, `pty`): it may ask for no deadline.
    Interactive,
    /// One that is left to itself: no deadline unless it asks for one.
    Background,
}

/// The deadline of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timeout {
    /// `None`: there is none.
    pub limit: Option<Duration>,
    /// What was asked for, if that was more than is allowed.
    pub clamped_from: Option<f64>,
}

/// A timeout that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum TimeoutError {
    /// Negative or not a number.
    #[error("timeout must be a number of seconds above 0 (or 0 for none), not {0}")]
    Unusable(f64),
    /// 0 where it is not allowed.
    #[error(
        "timeout 0 (no deadline) needs background, stdin_open or pty: add one of them, or give seconds"
    )]
    NoneForPlain,
    /// 0 where nobody may.
    #[error(
        "timeout 0 (no deadline) is turned off: give seconds, or set allow_no_deadline: true in the config"
    )]
    NoneAllowed,
}

/// Resolves a timeout in seconds.
///
/// # Errors
/// When it makes no sense; nothing is replaced silently.
pub fn resolve(
    asked: Option<f64>,
    kind: Kind,
    bounds: &TimeoutBounds,
) -> Result<Timeout, TimeoutError> {
    let limited = |limit| Timeout {
        limit: Some(limit),
        clamped_from: None,
    };
    let Some(seconds) = asked else {
        return Ok(match kind {
            Kind::Background if bounds.none_allowed => Timeout {
                limit: None,
                clamped_from: None,
            },
            Kind::Background => limited(bounds.most),
            Kind::Plain | Kind::Interactive => limited(bounds.default.min(bounds.most)),
        });
    };
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(TimeoutError::Unusable(seconds));
    }
    if seconds == 0.0 {
        return match kind {
            _ if !bounds.none_allowed => Err(TimeoutError::NoneAllowed),
            Kind::Plain => Err(TimeoutError::NoneForPlain),
            Kind::Interactive | Kind::Background => Ok(Timeout {
                limit: None,
                clamped_from: None,
            }),
        };
    }
    let most = bounds.most.as_secs_f64();
    if seconds > most {
        return Ok(Timeout {
            limit: Some(bounds.most),
            clamped_from: Some(seconds),
        });
    }
    Ok(limited(Duration::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TimeoutBounds = TimeoutBounds {
        default: Duration::from_secs(120),
        most: Duration::from_secs(600),
        none_allowed: true,
    };

    fn limit(asked: Option<f64>, kind: Kind) -> Option<u64> {
        resolve(asked, kind, &BOUNDS)
            .ok()?
            .limit
            .map(|limit| limit.as_secs())
    }

    #[test]
    fn defaults_depend_on_the_kind() {
        assert_eq!(limit(None, Kind::Plain), Some(120));
        assert_eq!(limit(None, Kind::Interactive), Some(120));
        assert_eq!(limit(None, Kind::Background), None);
    }

    #[test]
    fn above_the_maximum_is_clamped_and_said() {
        let timeout = resolve(Some(1e9), Kind::Background, &BOUNDS).ok();
        assert_eq!(
            timeout,
            Some(Timeout {
                limit: Some(Duration::from_secs(600)),
                clamped_from: Some(1e9),
            })
        );
    }

    #[test]
    fn none_is_for_those_that_may_run_long() {
        assert_eq!(
            resolve(Some(0.0), Kind::Plain, &BOUNDS),
            Err(TimeoutError::NoneForPlain)
        );
        assert_eq!(limit(Some(0.0), Kind::Interactive), None);
        let strict = TimeoutBounds {
            none_allowed: false,
            ..BOUNDS
        };
        assert_eq!(
            resolve(Some(0.0), Kind::Background, &strict),
            Err(TimeoutError::NoneAllowed)
        );
    }

    #[test]
    fn nonsense_is_an_error() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(
                resolve(Some(seconds), Kind::Plain, &BOUNDS).is_err(),
                "{seconds}"
            );
        }
    }
}

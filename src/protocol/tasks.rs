//! The tasks extension of the stateless era, as it stands on the wire: a call that is
//! answered by a task, and what `tasks/get` tells of it.
//!
//! Pure. Limits: a task never is `input_required`, since the server asks its client for
//! nothing; what becomes of which command is decided where the tools are.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::message::INVALID_PARAMS;

/// What may be asked about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// How it is, and its result when it is over.
    Get,
    /// To end it.
    Cancel,
    /// To take in answers to what it asked for, which is nothing.
    Update,
}

impl Operation {
    /// The operation that a method stands for.
    pub fn of_method(method: &str) -> Option<Operation> {
        match method {
            "tasks/get" => Some(Operation::Get),
            "tasks/cancel" => Some(Operation::Cancel),
            "tasks/update" => Some(Operation::Update),
            _ => None,
        }
    }

    /// The id of the task that a request is about.
    ///
    /// # Errors
    /// What its params lack, in words: [`INVALID_PARAMS`] to the client.
    pub fn task_of(self, params: Option<&Value>) -> Result<String, String> {
        let member = |name: &str| params.and_then(|params| params.get(name));
        if self == Operation::Update && !member("inputResponses").is_some_and(Value::is_object) {
            return Err("tasks/update needs params with inputResponses, an object".to_owned());
        }
        member("taskId")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| "a task's methods need params with its taskId, a string".to_owned())
    }
}

/// Why an operation is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("taskId {0} is unknown: it never was, or its output is no longer kept")]
pub struct UnknownTask(pub String);

impl UnknownTask {
    /// The JSON-RPC error code.
    pub const CODE: i64 = INVALID_PARAMS;
}

/// What has become of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// It runs.
    Working,
    /// It is over, and this is what the call would have answered.
    Completed {
        /// A result of `tools/call`.
        result: Value,
    },
    /// It is over, and there is no result to show.
    Failed {
        /// Why.
        error: Failure,
    },
    /// Somebody ended it.
    Cancelled,
}

/// A JSON-RPC error, as a task's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Such as [`INTERNAL_ERROR`](super::message::INTERNAL_ERROR).
    pub code: i64,
    /// For whoever reads it.
    pub message: String,
}

/// A task at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// What has become of it.
    pub status: Status,
    /// The same for people, in a few words.
    pub message: Option<String>,
    /// When it began.
    pub created: SystemTime,
    /// When it last showed a sign of life.
    pub updated: SystemTime,
    /// How long after its beginning it can be asked about, at least.
    pub kept_for: Duration,
    /// How long to wait until it is asked about again.
    pub ask_again_in: Duration,
}

impl Task {
    /// As the answer to the call that began it: without what only `tasks/get` tells.
    pub fn as_created(&self) -> Value {
        let status = Status::Working;
        self.written(&status)
    }

    /// As the answer to `tasks/get`.
    pub fn as_detailed(&self) -> Value {
        self.written(&self.status)
    }

    fn written(&self, status: &Status) -> Value {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Written<'a> {
            task_id: &'a str,
            #[serde(flatten)]
            status: &'a Status,
            #[serde(skip_serializing_if = "Option::is_none")]
            status_message: Option<&'a str>,
            created_at: String,
            last_updated_at: String,
            ttl_ms: u64,
            poll_interval_ms: u64,
        }
        json!(Written {
            task_id: &self.id,
            status,
            status_message: self.message.as_deref(),
            created_at: written_time(self.created),
            last_updated_at: written_time(self.updated),
            ttl_ms: positive_millis(self.kept_for),
            poll_interval_ms: positive_millis(self.ask_again_in),
        })
    }
}

/// ISO 8601 in UTC, to the millisecond. A clock outside of what can be written, years
/// before Christ or after 9999, reads as its nearest end.
fn written_time(time: SystemTime) -> String {
    let timestamp = Timestamp::try_from(time).unwrap_or(match time < SystemTime::UNIX_EPOCH {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    });
    format!("{timestamp:.3}")
}

/// Whole milliseconds, of which there is at least one.
fn positive_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(status: Status) -> Task {
        Task {
            id: "3dc8c9ee".to_owned(),
            status,
            message: Some("✔ exit=0".to_owned()),
            created: SystemTime::UNIX_EPOCH + Duration::from_millis(1_785_196_800_250),
            updated: SystemTime::UNIX_EPOCH + Duration::from_secs(1_785_196_801),
            kept_for: Duration::from_secs(86_400),
            ask_again_in: Duration::from_millis(500),
        }
    }

    #[test]
    fn a_completed_task_carries_its_result_and_its_times() {
        let result = json!({"content": []});
        assert_eq!(
            task(Status::Completed { result }).as_detailed(),
            json!({
                "taskId": "3dc8c9ee",
                "status": "completed",
                "result": {"content": []},
                "statusMessage": "✔ exit=0",
                "createdAt": "2026-07-28T00:00:00.250Z",
                "lastUpdatedAt": "2026-07-28T00:00:01.000Z",
                "ttlMs": 86_400_000,
                "pollIntervalMs": 500,
            })
        );
    }

    #[test]
    fn a_created_task_has_no_result_whatever_has_become_of_it() {
        let error = Failure {
            code: -32603,
            message: "gone".to_owned(),
        };
        let failed = task(Status::Failed { error });
        assert_eq!(failed.as_detailed()["error"]["code"], json!(-32603));
        let created = failed.as_created();
        assert_eq!(created["status"], json!("working"));
        assert_eq!(created.get("error"), None);
    }

    #[test]
    fn times_that_cannot_be_written_and_times_of_zero_still_are_valid() {
        let far = Task {
            created: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40),
            kept_for: Duration::ZERO,
            ..task(Status::Cancelled)
        };
        let written = far.as_detailed();
        let created = written["createdAt"].as_str().unwrap_or_default();
        assert!(created.starts_with("9999-12-3"), "{created}");
        assert_eq!(written["ttlMs"], json!(1));
    }

    #[test]
    fn an_operation_names_what_its_params_lack() {
        assert_eq!(Operation::of_method("tasks/list"), None);
        let id = json!({"taskId": "x"});
        assert_eq!(Operation::Get.task_of(Some(&id)), Ok("x".to_owned()));
        for (operation, params, named) in [
            (Operation::Get, json!({}), "taskId"),
            (Operation::Cancel, json!({"taskId": 5}), "taskId"),
            (Operation::Update, id, "inputResponses"),
        ] {
            let refused = operation.task_of(Some(&params)).expect_err("a refusal");
            assert!(refused.contains(named), "{refused}");
        }
    }
}

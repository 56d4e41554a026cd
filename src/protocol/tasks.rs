//! The messages of the tasks extension of the stateless era: a task as the answer to a call, and
//! the answer to `tasks/get`.
//!
//! Pure. Limits: a task is never `input_required`, since the server sends no requests. The tools
//! decide which calls become tasks.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::message::INVALID_PARAMS;

/// A request about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Returns the status, and the result if the task has ended.
    Get,
    /// Ends the task.
    Cancel,
    /// Brings input that the task requested; tasks here request none.
    Update,
}

impl Operation {
    /// The operation of a method; `None` if the method is not about tasks.
    pub(crate) fn from_method(method: &str) -> Option<Operation> {
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
    /// Names the missing member of the params: [`INVALID_PARAMS`] to the client.
    pub(crate) fn task_of(self, params: Option<&Value>) -> Result<String, String> {
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
#[error("taskId {0} is unknown: it never existed, or its output is no longer kept")]
pub(crate) struct UnknownTask(pub(crate) String);

impl UnknownTask {
    /// The JSON-RPC error code.
    pub(crate) const CODE: i64 = INVALID_PARAMS;
}

/// A task's status.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum TaskStatus {
    Working,
    Completed {
        /// The result of `tools/call` that the call would have returned if it had waited.
        result: Value,
    },
    /// The task has ended without a result.
    Failed {
        error: Failure,
    },
    Cancelled,
}

/// A JSON-RPC error as the outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    /// Such as [`INTERNAL_ERROR`](super::message::INTERNAL_ERROR).
    pub(crate) code: i64,
    /// What went wrong, in words.
    pub(crate) message: String,
}

/// A task at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ClientTask {
    #[serde(rename = "taskId")]
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) status: TaskStatus,
    /// The status in a few words, for people.
    #[serde(rename = "statusMessage", skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(rename = "createdAt", serialize_with = "iso")]
    pub(crate) created: SystemTime,
    /// When its status or output last changed.
    #[serde(rename = "lastUpdatedAt", serialize_with = "iso")]
    pub(crate) updated: SystemTime,
    /// How long after its creation the task can be queried, at least.
    #[serde(rename = "ttlMs", serialize_with = "positive_millis")]
    pub(crate) kept_for: Duration,
    /// How long the client should wait before the next query.
    #[serde(rename = "pollIntervalMs", serialize_with = "positive_millis")]
    pub(crate) ask_again_in: Duration,
}

impl ClientTask {
    /// The answer to the call that created the task. Only `tasks/get` shows how it ended.
    pub(crate) fn as_created(&self) -> Value {
        ClientTask { status: TaskStatus::Working, ..self.clone() }.as_detailed()
    }

    /// The answer to `tasks/get`.
    pub(crate) fn as_detailed(&self) -> Value {
        json!(self)
    }
}

/// ISO 8601 in UTC, to the millisecond. A time out of range becomes the nearest one in range.
fn iso<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let nearest = if *time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    let written = format!("{:.3}", Timestamp::try_from(*time).unwrap_or(nearest));
    serializer.serialize_str(&written)
}

/// Whole milliseconds, at least one.
fn positive_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    serializer.serialize_u64(millis.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(status: TaskStatus) -> ClientTask {
        ClientTask {
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
            task(TaskStatus::Completed { result }).as_detailed(),
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
        let error = Failure { code: -32603, message: "gone".to_owned() };
        let failed = task(TaskStatus::Failed { error });
        assert_eq!(failed.as_detailed()["error"]["code"], json!(-32603));
        let created = failed.as_created();
        assert_eq!(created["status"], json!("working"));
        assert_eq!(created.get("error"), None);
    }

    #[test]
    fn times_that_cannot_be_written_and_times_of_zero_still_are_valid() {
        let far = ClientTask {
            created: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40),
            kept_for: Duration::ZERO,
            ..task(TaskStatus::Cancelled)
        };
        let written = far.as_detailed();
        let created = written["createdAt"].as_str().unwrap_or_default();
        assert!(created.starts_with("9999-12-3"), "{created}");
        assert_eq!(written["ttlMs"], json!(1));
    }

    #[test]
    fn an_operation_names_missing_params() {
        assert_eq!(Operation::from_method("tasks/list"), None);
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

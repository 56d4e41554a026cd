//! Calls about tasks that another process of the user owns. That process carries them out, over its
//! control socket, and this server passes on the answers.

use serde_json::Value;

use super::call::Call;
use super::dispatch::{Answered, CallContext, ProgressMessage, Relayed, ToolResult, Tools};
use super::tools::Tool;
use crate::peer::client::{Peer, PeerCall};
use crate::peer::{self, ANSWER_LIMIT, Owner, PeerError};
use crate::protocol::message::put;
use crate::protocol::stateless::ResultType;

impl Tools {
    /// The shim that owns a task, if the call is relayed to it.
    pub(super) fn shim_of(&self, id: &str, call: &CallContext) -> Option<Owner> {
        if !call.relays() || self.supervisor.task(id).is_some() {
            return None;
        }
        let state = self.supervisor.settings.state.as_ref().ok()?;
        peer::shim_of(state, id)
    }

    /// Lets the owner of a task carry out a call.
    pub(super) fn relay(
        &self,
        owner: Owner,
        tool: &Tool,
        typed: &Call,
        call: &mut CallContext,
    ) -> Relayed {
        if typed.secret().is_some() {
            let id = typed.task_id().unwrap_or_default();
            return Relayed::Answered(Some(Answered::from_result(ToolResult::error(format!(
                "secrets are not typed into detached tasks: a person can answer with `zsh-tool attach {id}`"
            )))));
        }
        let request = PeerCall {
            tool: tool.wire_name,
            arguments: &typed.arguments(),
            client: call.relayed_client(),
            limit: typed.wait() + ANSWER_LIMIT,
            cancel: call.cancel,
        };
        let answered = {
            let mut forward = forward_progress(&mut call.progress);
            Peer::connect(owner.clone()).and_then(|mut peer| {
                let result = peer.call(&request, forward.as_mut().map(|forward| forward as _))?;
                Ok((peer, result))
            })
        };
        match answered {
            Ok((peer, result)) => Relayed::Answered(self.pass_on(peer, result, call)),
            Err(PeerError::Cancelled) => Relayed::Answered(None),
            Err(PeerError::Gone(_)) if owner.await_end(ANSWER_LIMIT) => Relayed::OwnerEnded,
            Err(error) => {
                Relayed::Answered(Some(Answered::from_result(ToolResult::error(error.to_string()))))
            }
        }
    }

    /// Answers a call with another process's result. `None` if the call was cancelled.
    pub(super) fn pass_on(
        &self,
        peer: Peer,
        mut result: Value,
        call: &CallContext,
    ) -> Option<Answered> {
        if !call.cancel.begin_answer() {
            return None;
        }
        let about = result.pointer("/_meta/zsh-tool~1result/task_id").and_then(Value::as_str);
        let about = about.map(str::to_owned);
        let mut structured = result.get_mut("structuredContent").map(Value::take);
        if let Some(Value::String(text)) = result.pointer_mut("/content/0/text") {
            self.add_notices(text, structured.as_mut(), about.as_deref(), call);
        }
        if let Some(structured) = structured {
            put(&mut result, "structuredContent", structured);
        }
        Some(Answered {
            result_type: ResultType::Complete,
            result,
            delivered: Some(Box::new(|| peer.delivered())),
        })
    }
}

/// Forwards the progress messages of another process to the client, if it wants them.
pub(super) fn forward_progress<'a>(
    progress: &'a mut Option<&mut dyn FnMut(ProgressMessage)>,
) -> Option<impl FnMut(&Value) + 'a> {
    let report = progress.as_mut()?;
    Some(move |params: &Value| {
        if let Some(progress) = ProgressMessage::from_params(params) {
            report(progress);
        }
    })
}

//! The file that all servers of a user share: after how long which clients gave a call up.

use std::time::Duration;

use super::ceilings::{self, Learned};
use super::clients;
use super::dispatch::Tools;
use crate::process::files;
use crate::protocol::era::ClientInfo;
use crate::text::foreign::ShowPath;

/// The file's name in the state directory.
const FILE: &str = "ceilings.json";
/// How much of the file is read, in bytes.
const FILE_BYTES: u64 = 256 * 1024;

impl Tools {
    /// The longest wait of a call of this client, given what its connection has learned.
    pub(super) fn ceiling(
        &self,
        client: &ClientInfo,
        takes_tasks: bool,
        connection: &[Learned],
    ) -> Duration {
        let set = self.config.client_timeout;
        let kept;
        let learned = if clients::is_sdk(&client.name) {
            connection
        } else {
            kept = self.learned_ceilings();
            &kept
        };
        ceilings::ceiling(client, takes_tasks, set, learned)
    }

    /// The calls that clients have given up, newest first.
    pub(super) fn learned_ceilings(&self) -> Vec<Learned> {
        let Ok(state) = &self.supervisor.settings.state else {
            return Vec::new();
        };
        let content = files::read_private(&state.join(FILE), FILE_BYTES).unwrap_or_default();
        ceilings::learned(&content, self.supervisor.now())
    }

    /// Keeps that a client gave a call up, for all servers.
    pub(super) fn keep_learned(&self, new: Learned) {
        let Ok(state) = self.supervisor.settings.state.as_ref() else {
            return;
        };
        let learned = ceilings::learn(self.learned_ceilings(), new);
        let path = state.join(FILE);
        let written = serde_json::to_vec(&learned)
            .map_err(std::io::Error::from)
            .and_then(|content| files::replace_private(&path, &content));
        if let Err(error) = written {
            tracing::warn!("cannot write {}: {error}", path.shown());
        }
    }
}

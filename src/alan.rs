//! L4: A.L.A.N., the history of commands, and what it predicts. Only [`store`] and [`schema`] use SQL; the
//! rest is pure.
//!
//! Read in this order:
//!
//! - In: [`pattern`] is a command's identity, [`fingerprint`] that of a failure, [`run`] a finished run
//!   with its rows, [`rows`] the types of the tables.
//! - Kept: [`schema`] is the tables and the way from older ones, [`store`] the one SQLite file that all
//!   servers of a user share, `cache` what it knows of a command, in memory.
//! - Out: [`history`] is one consistent view of a command, [`estimate`] how long it takes, [`kill`]
//!   whether it was killed too early, [`insight`] what an answer says of all this, in words.
//!
//! May touch: the database.

mod cache;
pub(crate) mod estimate;
pub(crate) mod fingerprint;
pub(crate) mod history;
pub(crate) mod insight;
pub(crate) mod kill;
pub(crate) mod pattern;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod store;

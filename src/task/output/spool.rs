//! A task's output in segment files under a quota, with an index of lines.
//!
//! The worker is the only writer. Readers take positions from the index and read the files
//! themselves, without the lock. The first quarter of the quota is the head, which only the quota
//! of all tasks may drop; the rest are two segments that take turns, so that the newest output is
//! always kept. If the disk fails, segments in memory continue to keep the newest output.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::{Budget, StorageKind};
use super::segment::{Medium, Segment, segment_path, write_as_much_as_possible};
use crate::process::files;
use crate::task::stream::PerStream;
use crate::text::foreign::ShowPath;
use crate::text::lines::{self, LinePosition, Position};

/// How much of a task's newest output is kept whatever the quota of all tasks demands.
const NEWEST_KEPT: u64 = 64 * 1024;
/// The index holds one entry per this many bytes of output.
const CHECKPOINT_BYTES: u64 = 256 * 1024;
/// How much of a task's output is kept without a disk.
pub(crate) const MEMORY_QUOTA: u64 = 4 * 1024 * 1024;

/// What was lost to the quota or a failed disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    pub bytes: u64,
    /// Including lines that are lost in part.
    pub lines: u64,
    /// Why the disk is no longer written to.
    pub disk_failed: Option<String>,
}

#[derive(Debug, Default)]
struct Index {
    /// Set if the quota of all tasks needs the current segment: the writer then begins another,
    /// so that it can be dropped.
    begin_another: bool,
    /// [`NEWEST_KEPT`], or less if the task's own quota is small.
    newest_kept: u64,
    checkpoints: Vec<LinePosition>,
    /// In order; contiguous except for what was dropped.
    segments: Vec<Segment>,
    losses: Losses,
}

/// The readers' side of a spool.
#[derive(Debug)]
pub struct Spool {
    index: Mutex<Index>,
    budget: Arc<Budget>,
}

/// The spools of a task's streams. That of stderr stays empty unless it is apart.
pub(crate) type Spools = PerStream<Arc<Spool>>;

/// The writer's side of a spool.
#[derive(Debug)]
pub(crate) struct SpoolWriter {
    spool: Arc<Spool>,
    /// `None` for memory only.
    base: Option<PathBuf>,
    quota: u64,
    current: Option<(u64, Option<File>)>,
    next_number: u64,
    /// The end of what was written.
    end: LinePosition,
    line_start: Position,
    /// The last bytes: as many as an incomplete character may have.
    last_bytes: Vec<u8>,
    last_checkpoint: u64,
}

impl SpoolWriter {
    /// A spool in files `base.0`, `base.1`, …, created with the first byte; without `base`, in
    /// memory.
    pub(crate) fn new(base: Option<PathBuf>, quota: u64, budget: Arc<Budget>) -> SpoolWriter {
        let quota = if base.is_some() { quota } else { quota.min(MEMORY_QUOTA) };
        SpoolWriter {
            spool: Arc::new(Spool {
                index: Mutex::new(Index {
                    newest_kept: NEWEST_KEPT.min(quota / 8),
                    ..Index::default()
                }),
                budget,
            }),
            base,
            quota,
            current: None,
            next_number: 0,
            end: LinePosition::FIRST,
            line_start: LinePosition::FIRST.at,
            last_bytes: Vec::new(),
            last_checkpoint: 0,
        }
    }

    pub(crate) fn reader(&self) -> Arc<Spool> {
        Arc::clone(&self.spool)
    }

    /// The end of what has been written.
    pub(crate) fn end(&self) -> Position {
        self.end.at
    }

    /// Whether a reader that has taken this many bytes is too far behind: it would miss some if
    /// much more came and the disk failed. A third of the smallest kept segment is allowed, since
    /// output comes in bursts. False without such a reader.
    pub(crate) fn leaves_behind(&self, taken: Option<u64>) -> bool {
        let safe = self.quota.min(MEMORY_QUOTA) / 8;
        taken.is_some_and(|taken| self.end().offset > taken + safe)
    }

    /// How many segments have been begun.
    pub(crate) fn segments_begun(&self) -> u64 {
        self.next_number
    }

    /// Whether any task has made the spools exceed the directory's quota since the last call.
    pub(crate) fn budget_exceeded(&self) -> bool {
        self.spool.budget.take_exceeded()
    }

    /// Records why output is not written to disk.
    pub(crate) fn without_disk(self, cause: String) -> SpoolWriter {
        self.spool.index.lock().losses.disk_failed = Some(cause);
        self
    }

    /// The start of the line that the next byte belongs to.
    pub(crate) fn line_start(&self) -> Position {
        self.line_start
    }

    /// How many bytes at the end are an incomplete character.
    pub(crate) fn unfinished(&self) -> u64 {
        lines::unfinished_character(&self.last_bytes) as u64
    }

    /// Adds bytes. Never fails: without a disk the newest bytes are kept in memory.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let start = self.end.at.offset;
        self.append_across_segments(bytes);
        let newest = bytes.len().saturating_sub(lines::UNFINISHED_BYTES);
        self.last_bytes.extend_from_slice(bytes.get(newest..).unwrap_or_default());
        let surplus = self.last_bytes.len().saturating_sub(lines::UNFINISHED_BYTES);
        self.last_bytes.drain(..surplus);
        if let Some(newline) = memchr::memrchr(b'\n', bytes) {
            self.line_start =
                Position { offset: start + newline as u64 + 1, line: self.end.at.line };
        }
    }

    fn append_across_segments(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.write_to_current(now);
            bytes = later;
        }
    }

    /// Room in the current segment, after opening one if there is none.
    fn room(&mut self) -> usize {
        let size = self.segment_size();
        if let Some((number, _)) = &self.current {
            let mut index = self.spool.index.lock();
            let begin_another = std::mem::take(&mut index.begin_another);
            // The segment is missing if it was dropped for the directory's quota.
            let length = index
                .segments
                .iter()
                .find(|segment| segment.number == *number)
                .map(Segment::length);
            if let Some(length) = length
                && length < size
                && !(begin_another && length > 0)
            {
                return usize::try_from(size - length).unwrap_or(usize::MAX);
            }
        }
        self.open_segment();
        usize::try_from(self.segment_size()).unwrap_or(usize::MAX)
    }

    /// The head is the first quarter of the quota, later segments three eighths each.
    fn segment_size(&self) -> u64 {
        let first = self.current.as_ref().is_none_or(|(number, _)| *number == 0);
        let size = if first { self.quota / 4 } else { self.quota / 8 * 3 };
        size.max(1)
    }

    fn open_segment(&mut self) {
        let number = self.next_number;
        self.next_number += 1;
        let opened = self.base.as_ref().map(|base| {
            let path = segment_path(base, number);
            (files::create_private(&path), path)
        });
        let (file, medium) = match opened {
            Some((Ok(file), path)) => (Some(file), Medium::File(path)),
            Some((Err(error), path)) => {
                self.stop_using_disk(&path, &error);
                (None, Medium::Memory(Arc::default()))
            }
            None => (None, Medium::Memory(Arc::default())),
        };
        self.current = Some((number, file));
        let mut index = self.spool.index.lock();
        // Most tasks have one, and there are many tasks.
        if index.segments.is_empty() {
            index.segments.reserve_exact(1);
            index.checkpoints.reserve_exact(1);
        }
        index.segments.push(Segment { number, start: self.end, end: self.end, medium });
        index.checkpoints.push(self.end);
        self.last_checkpoint = self.end.at.offset;
        // The head, the last full segment and the new one are kept.
        let dropped = (index.segments.len() > 3).then(|| index.drop_segment(1, self.end.at.line));
        drop(index);
        self.spool.discard(dropped.flatten());
    }

    fn stop_using_disk(&mut self, path: &Path, error: &io::Error) {
        self.base = None;
        self.quota = self.quota.min(MEMORY_QUOTA);
        let mut index = self.spool.index.lock();
        if index.losses.disk_failed.is_none() {
            index.losses.disk_failed = Some(format!("cannot write {}: {error}", path.shown()));
        }
    }

    fn write_to_current(&mut self, bytes: &[u8]) {
        let Some((number, file)) = &mut self.current else {
            return;
        };
        let number = *number;
        let (written, failure) = match file {
            Some(file) => write_as_much_as_possible(file, bytes),
            None => {
                self.spool.append_in_memory(number, bytes);
                (bytes.len(), None)
            }
        };
        if let Some(error) = failure {
            let path =
                self.base.as_ref().map(|base| segment_path(base, number)).unwrap_or_default();
            self.stop_using_disk(&path, &error);
        }
        let (kept, rest) = bytes.split_at(written);
        if self.extend(number, kept) {
            if !rest.is_empty() {
                // A segment in memory continues where the file ends.
                self.open_segment();
                self.append_across_segments(rest);
            }
        } else {
            // The segment was dropped meanwhile for the directory's quota. The newest output must
            // not be lost, so all of these bytes go into the next segment.
            self.open_segment();
            self.append_across_segments(bytes);
        }
    }

    /// Records that the segment has grown; returns false if it was dropped.
    fn extend(&mut self, number: u64, bytes: &[u8]) -> bool {
        let mut index = self.spool.index.lock();
        let Some(segment) = index.segments.iter_mut().find(|segment| segment.number == number)
        else {
            return false;
        };
        // Counted before the segment can be dropped, which gives the bytes back.
        self.spool.budget.take(segment.store(), bytes.len() as u64);
        let mut rest = bytes;
        let mut passed = Vec::new();
        loop {
            let due = self.last_checkpoint + CHECKPOINT_BYTES;
            let ahead = usize::try_from(due - self.end.at.offset).unwrap_or(usize::MAX);
            let Some((span, later)) = rest.split_at_checked(ahead) else {
                break;
            };
            self.end = self.end.after(span);
            self.last_checkpoint = due;
            passed.push(self.end);
            rest = later;
        }
        self.end = self.end.after(rest);
        segment.end = self.end;
        index.checkpoints.append(&mut passed);
        true
    }
}

impl Index {
    /// Removes a segment and records the loss; `end_line` is the line at the end of all output.
    fn drop_segment(&mut self, place: usize, end_line: u64) -> Option<Segment> {
        if place >= self.segments.len() {
            return None;
        }
        let segment = self.segments.remove(place);
        let after = self.segments.get(place).map_or(end_line, |next| next.start.at.line);
        self.losses.bytes += segment.length();
        self.losses.lines += after.saturating_sub(segment.start.at.line).max(1);
        let gone = segment.start.at.offset..segment.end.at.offset;
        self.checkpoints.retain(|checkpoint| !gone.contains(&checkpoint.at.offset));
        Some(segment)
    }
}

/// A spool that an ended server has left, and where its output ends.
#[derive(Debug)]
pub struct Reopened {
    /// It is neither written nor removed.
    pub spool: Spool,
    /// The end of the output.
    pub end: Position,
    /// The start of the line at its end.
    pub line_start: Position,
}

impl Spool {
    /// The spool of these files, by number, in order. `starts` has the position of the first byte
    /// of a file, by its number; a file without an entry must follow the one before, or reading
    /// ends there.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn reopen(files: Vec<(u64, PathBuf)>, starts: &[(u64, Position)]) -> io::Result<Reopened> {
        let mut index = Index::default();
        let (mut end, mut line_start) = (LinePosition::FIRST, LinePosition::FIRST.at);
        for (number, path) in files {
            let follows = index
                .segments
                .last()
                .map_or(number == 0, |last| last.number.checked_add(1) == Some(number));
            let recorded = starts.iter().find(|(recorded, _)| *recorded == number);
            match recorded {
                // Its server's notes may be older than the files.
                Some((_, start)) if !follows && start.offset >= end.at.offset => {
                    index.losses.bytes += start.offset - end.at.offset;
                    index.losses.lines += start.line.saturating_sub(end.at.line).max(1);
                    line_start = *start;
                    end = LinePosition { at: *start, inside_line: true };
                }
                _ if follows => {}
                _ => break,
            }
            let start = end;
            index.checkpoints.push(start);
            let mut file = files::open_private(&path)?;
            let mut chunk = Vec::new();
            while (&mut file).take(CHECKPOINT_BYTES).read_to_end(&mut chunk)? > 0 {
                if let Some(newline) = memchr::memrchr(b'\n', &chunk) {
                    line_start = end.after(chunk.get(..=newline).unwrap_or_default()).at;
                }
                end = end.after(&chunk);
                index.checkpoints.push(end);
                chunk.clear();
            }
            index.segments.push(Segment { number, start, end, medium: Medium::File(path) });
        }
        Ok(Reopened {
            spool: Spool { index: Mutex::new(index), budget: Budget::new(u64::MAX) },
            end: end.at,
            line_start,
        })
    }

    pub fn losses(&self) -> Losses {
        self.index.lock().losses.clone()
    }

    /// How many bytes it holds in this storage.
    pub fn held(&self, store: StorageKind) -> u64 {
        let index = self.index.lock();
        index.segments.iter().filter(|segment| segment.store() == store).map(Segment::length).sum()
    }

    /// The files that hold it, oldest first.
    pub fn files(&self) -> Vec<PathBuf> {
        let index = self.index.lock();
        index
            .segments
            .iter()
            .filter_map(|segment| match &segment.medium {
                Medium::File(path) => Some(path.clone()),
                Medium::Memory(_) => None,
            })
            .collect()
    }

    /// Where the output in each of those files begins, by the file's number.
    pub fn starts(&self) -> Vec<(u64, Position)> {
        let index = self.index.lock();
        let on_disk = |segment: &&Segment| segment.store() == StorageKind::Disk;
        let segments = index.segments.iter().filter(on_disk);
        segments.map(|segment| (segment.number, segment.start.at)).collect()
    }

    /// Drops the oldest segment in a kind of storage, for the quota of all tasks; returns the bytes
    /// that were freed. The newest output stays: if too little has come after the segment, nothing
    /// is dropped, and the writer begins another one.
    pub fn drop_oldest(&self, store: StorageKind, end_line: u64) -> u64 {
        let dropped = {
            let mut index = self.index.lock();
            let oldest = index.segments.iter().position(|segment| segment.store() == store);
            let newer = oldest.map_or(0, |place| {
                let after = index.segments.iter().skip(place + 1);
                after.map(Segment::length).sum()
            });
            if newer < index.newest_kept {
                index.begin_another = true;
                None
            } else {
                oldest.and_then(|place| index.drop_segment(place, end_line))
            }
        };
        let length = dropped.as_ref().map_or(0, Segment::length);
        self.discard(dropped);
        length
    }

    pub fn remove(&self) {
        let segments = std::mem::take(&mut self.index.lock().segments);
        for segment in segments {
            self.discard(Some(segment));
        }
    }

    fn discard(&self, segment: Option<Segment>) {
        let Some(segment) = segment else {
            return;
        };
        if let Medium::File(path) = &segment.medium {
            // A file that cannot be removed now is removed with its directory when that expires.
            let _ = std::fs::remove_file(path);
        }
        self.budget.give_back(segment.store(), segment.length());
    }

    fn append_in_memory(&self, number: u64, bytes: &[u8]) {
        let memory = {
            let index = self.index.lock();
            index.segments.iter().find_map(|segment| match &segment.medium {
                Medium::Memory(memory) if segment.number == number => Some(Arc::clone(memory)),
                _ => None,
            })
        };
        if let Some(memory) = memory {
            memory.lock().extend_from_slice(bytes);
        }
    }

    /// The segments at this moment.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        self.index.lock().segments.clone()
    }

    /// Whether a segment has been dropped.
    pub(crate) fn is_dropped(&self, number: u64) -> bool {
        let index = self.index.lock();
        !index.segments.iter().any(|segment| segment.number == number)
    }

    /// The last checkpoint for which `holds` is true; it must be true for a prefix of them.
    pub(crate) fn checkpoint(&self, holds: impl Fn(&Position) -> bool) -> LinePosition {
        let index = self.index.lock();
        let place = index.checkpoints.partition_point(|checkpoint| holds(&checkpoint.at));
        place
            .checked_sub(1)
            .and_then(|place| index.checkpoints.get(place))
            .copied()
            .unwrap_or(LinePosition::FIRST)
    }
}

#[cfg(test)]
impl SpoolWriter {
    /// The lines `1` to `last` in memory, written in chunks as from a pipe.
    pub(crate) fn count_to(last: u64) -> SpoolWriter {
        const QUOTA: u64 = 4 * 1024 * 1024;
        let mut writer = SpoolWriter::new(None, QUOTA, Budget::new(QUOTA));
        let text: String = (1..=last).map(|number| format!("{number}\n")).collect();
        text.as_bytes().chunks(60_000).for_each(|chunk| writer.append(chunk));
        writer
    }

    /// The end of what has been written, for readers.
    pub(crate) fn line_end(&self) -> LinePosition {
        LinePosition { at: self.end(), inside_line: self.line_start() != self.end() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bytes_are_counted_by_storage_and_given_back() {
        let folder = tempfile::tempdir().expect("a folder");
        for (base, store, other) in [
            (None, StorageKind::Memory, StorageKind::Disk),
            (Some(folder.path().join("task")), StorageKind::Disk, StorageKind::Memory),
        ] {
            let budget = Budget::new(1 << 20);
            let mut writer = SpoolWriter::new(base, 800, Arc::clone(&budget));
            for _ in 0..100 {
                writer.append(b"0123456789abcdefghijklm\n");
            }
            let spool = writer.reader();
            assert_eq!(budget.used(store), spool.held(store));
            assert!(spool.held(store) <= 800, "{}", spool.held(store));
            assert_eq!((budget.used(other), spool.held(other)), (0, 0));
            spool.drop_oldest(store, writer.end().line);
            assert_eq!(budget.used(store), spool.held(store));
            spool.remove();
            assert_eq!(budget.used(store), 0);
        }
    }

    #[test]
    fn a_spool_in_memory_never_gives_up_its_newest_output() {
        let mut writer = SpoolWriter::new(None, 800, Budget::new(1 << 20));
        for number in 0..100 {
            writer.append(format!("line {number:02}\n").as_bytes());
        }
        let (spool, end) = (writer.reader(), writer.end());
        while spool.drop_oldest(StorageKind::Memory, end.line) > 0 {}
        let pieces = spool.read(LinePosition::FIRST, end.offset).expect("memory");
        assert!(pieces[0].bytes.ends_with(b"line 99\n"));
        assert_eq!(spool.losses().bytes, end.offset - pieces[0].bytes.len() as u64);
    }

    #[test]
    fn an_unfinished_character_is_seen_over_several_writes() {
        let mut writer = SpoolWriter::new(None, 800, Budget::new(1 << 20));
        let seen: Vec<u64> = [&b"x\xf0"[..], b"\x9f", b"\x98", b"\x80", b"\xe3", b"\n"]
            .into_iter()
            .map(|bytes| {
                writer.append(bytes);
                writer.unfinished()
            })
            .collect();
        assert_eq!(seen, [1, 2, 3, 0, 1, 0]);
    }

    #[test]
    fn the_newest_output_outlives_the_quota_that_all_tasks_share() {
        let directory = tempfile::tempdir().unwrap();
        let budget = Budget::new(1024);
        let mut writer = SpoolWriter::new(Some(directory.path().join("t")), 1 << 30, budget);
        let spool = writer.reader();
        writer.append(&vec![b'a'; 300_000]);
        assert_eq!(spool.drop_oldest(StorageKind::Disk, 1), 0, "it is all there is");
        writer.append(&vec![b'b'; 60_000]);
        assert_eq!(spool.drop_oldest(StorageKind::Disk, 1), 0, "too little came after it");
        writer.append(&vec![b'c'; 60_000]);
        assert_eq!(spool.drop_oldest(StorageKind::Disk, 1), 300_000);
        assert_eq!(spool.held(StorageKind::Disk), 120_000);
    }
}

//! What is omitted where there is not enough room for all rows. Pure.

use super::rows::{Content, LineRow};
use super::{Choice, LINE_CHARS, Layout, Room, choice, similar};

/// Cuts long lines, and then omits the middle, if there is not enough room. Always shows the last
/// line, even if it does not fit.
pub(super) fn cap(mut rows: Vec<LineRow>, layout: &Layout) -> Vec<LineRow> {
    let room = layout.room;
    let aim = match layout.choice {
        Choice::Ends => room.chars,
        Choice::Worth { aim } => aim.min(room.chars),
    };
    // The last line has no newline after it.
    let all = Room { chars: aim.saturating_add(1), bytes: room.bytes.saturating_add(1), ..room };
    if count_fitting(rows.iter(), all, layout) == rows.len() {
        return rows;
    }
    // A character has at most four bytes.
    let max_length = LINE_CHARS.min(room.chars).min(room.bytes / 4);
    rows.iter_mut().for_each(|row| row.shorten(max_length));
    if count_fitting(rows.iter(), all, layout) == rows.len() {
        return rows;
    }
    if let Choice::Worth { aim } = layout.choice {
        rows = similar::similar_rows(rows);
        if count_fitting(rows.iter(), all, layout) == rows.len() {
            return rows;
        }
        let shown = choice::chosen(&rows, layout, aim);
        omit(&mut rows, |place| !shown.get(place).copied().unwrap_or_default());
        return rows;
    }
    let (head_room, tail_room) = room.third();
    let head = count_fitting(rows.iter(), head_room, layout);
    let tail = count_fitting(rows.iter().rev(), tail_room, layout).max(1);
    let tail_start = rows.len().saturating_sub(tail).max(head);
    omit(&mut rows, |place| (head..tail_start).contains(&place));
    rows
}

/// Makes gaps of the rows at these places.
fn omit(rows: &mut Vec<LineRow>, is_omitted: impl Fn(usize) -> bool) {
    let mut omits = false;
    for (place, row) in rows.iter_mut().enumerate() {
        if is_omitted(place) && !row.is_missing() {
            row.content = Content::Missing { readable: true };
            omits = true;
        }
    }
    if omits {
        rows.dedup_by(|row, before| {
            let continues = row.is_missing() && row.content == before.content;
            if continues {
                before.last = row.last;
            }
            continues
        });
    }
}

/// How many of the first rows fit into the room. Missing lines take no room.
fn count_fitting<'a>(
    rows: impl Iterator<Item = &'a LineRow>,
    mut room: Room,
    layout: &Layout,
) -> usize {
    rows.take_while(|row| row.is_missing() || room.take_line(&row.shown(layout))).count()
}

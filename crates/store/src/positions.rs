//! The positions that meet several conditions, read from the index of each: to find the few events that meet a rare and
//! a common condition costs as much as the rare condition alone.

use std::collections::VecDeque;

use rusqlite::{Connection, params, types::Value};

/// Positions that are read from an index at first: most of the following ones are skipped if another condition is
/// rarer.
const MIN_PIECE: usize = 16;
/// Most positions that are read at once.
const MAX_PIECE: usize = 1024;

/// The direction in which positions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    NewestFirst,
    OldestFirst,
}

impl Order {
    /// Returns whether `one` comes before `other`.
    pub(super) const fn is_before(self, one: i64, other: i64) -> bool {
        match self {
            Self::NewestFirst => one > other,
            Self::OldestFirst => one < other,
        }
    }

    /// Returns the position after `position`.
    const fn next(self, position: i64) -> i64 {
        match self {
            Self::NewestFirst => position.saturating_sub(1),
            Self::OldestFirst => position.saturating_add(1),
        }
    }
}

/// A condition with one parameter, whose index has the positions in order.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) text: &'static str,
    pub(super) value: Value,
}

impl Condition {
    pub(super) fn new(text: &'static str, value: impl Into<Value>) -> Self {
        Self {
            text,
            value: value.into(),
        }
    }

    /// Returns the statement that reads positions from `?2` on, at most `?3` of them.
    pub(super) fn select(&self, order: Order) -> String {
        let (bound, direction) = match order {
            Order::NewestFirst => ("<=", "DESC"),
            Order::OldestFirst => (">=", "ASC"),
        };
        let text = self.text;
        format!("SELECT seq FROM events WHERE {text} AND seq {bound} ?2 ORDER BY seq {direction} LIMIT ?3")
    }
}

/// The positions that meet one condition, read in pieces.
#[derive(Debug)]
struct IndexList {
    select: String,
    value: Value,
    order: Order,
    piece: VecDeque<i64>,
    /// The length of the next piece, and the last position of the latest one.
    length: usize,
    last: Option<i64>,
    is_read: bool,
}

impl IndexList {
    fn new(condition: Condition, order: Order) -> Self {
        Self {
            select: condition.select(order),
            value: condition.value,
            order,
            piece: VecDeque::new(),
            length: MIN_PIECE,
            last: None,
            is_read: false,
        }
    }

    /// Returns the first position that does not come before `target`.
    fn seek(&mut self, connection: &Connection, target: i64) -> rusqlite::Result<Option<i64>> {
        let order = self.order;
        while self
            .piece
            .pop_front_if(|first| order.is_before(*first, target))
            .is_some()
        {}
        if self.piece.is_empty() && !self.is_read {
            self.read(connection, target)?;
        }
        Ok(self.piece.front().copied())
    }

    fn read(&mut self, connection: &Connection, target: i64) -> rusqlite::Result<()> {
        let is_near = |last: i64| last.abs_diff(target) <= self.length as u64;
        self.length = match self.last.is_some_and(is_near) {
            true => (2 * self.length).min(MAX_PIECE),
            false => MIN_PIECE,
        };
        let mut select = connection.prepare_cached(&self.select)?;
        let mut rows = select.query(params![self.value, target, self.length as i64])?;
        while let Some(row) = rows.next()? {
            self.piece.push_back(row.get(0)?);
        }
        self.is_read = self.piece.len() < self.length;
        self.last = self.piece.back().copied();
        Ok(())
    }
}

/// The positions that meet at least one condition of each group, in one order.
#[derive(Debug)]
pub(super) struct CommonPositions {
    order: Order,
    groups: Vec<Vec<IndexList>>,
    /// The next position to be read, and the last one.
    next: i64,
    last: i64,
}

impl CommonPositions {
    /// The common positions of `groups`, of which there must be at least one, from position `first` to `last`.
    pub(super) fn new(groups: Vec<Vec<Condition>>, order: Order, first: i64, last: i64) -> Self {
        let (next, last) = match order {
            Order::NewestFirst => (last, first),
            Order::OldestFirst => (first, last),
        };
        let list = |condition| IndexList::new(condition, order);
        let group = |group: Vec<Condition>| group.into_iter().map(list).collect();
        Self {
            order,
            groups: groups.into_iter().map(group).collect(),
            next,
            last,
        }
    }

    /// Returns the next position.
    pub(super) fn next(&mut self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        let order = self.order;
        let mut target = self.next;
        loop {
            let start = target;
            for group in &mut self.groups {
                let mut nearest = None;
                for list in group {
                    let position = list.seek(connection, target)?;
                    nearest = match (nearest, position) {
                        (Some(one), Some(other)) if order.is_before(one, other) => Some(one),
                        (one, other) => other.or(one),
                    };
                }
                let Some(position) = nearest.filter(|position| !order.is_before(self.last, *position)) else {
                    return Ok(None);
                };
                target = position;
            }
            if target == start {
                break;
            }
        }
        self.next = order.next(target);
        Ok(Some(target))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table of events with three indexed columns.
    fn database(rows: &[(i64, i64, i64)]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE events (seq INTEGER PRIMARY KEY, a, b, c);
                 CREATE INDEX by_a ON events (a); CREATE INDEX by_b ON events (b); CREATE INDEX by_c ON events (c);",
            )
            .unwrap();
        let mut insert = connection
            .prepare("INSERT INTO events (a, b, c) VALUES (?1, ?2, ?3)")
            .unwrap();
        for row in rows {
            insert.execute(*row).unwrap();
        }
        drop(insert);
        connection
    }

    proptest! {
        #[test]
        fn the_positions_are_those_that_a_look_at_every_row_finds(
            // Rare values and runs of common ones, so that pieces are skipped or read to their ends.
            runs in prop::collection::vec((0..3_i64, 0..3_i64, 0..3_i64, 1..60_usize), 0..20),
            is_newest_first in any::<bool>(),
            (first, last) in (0..600_i64, 0..600_i64),
        ) {
            let rows: Vec<_> = runs.iter().flat_map(|(a, b, c, count)| vec![(*a, *b, *c); *count]).collect();
            let connection = database(&rows);
            let groups = vec![
                vec![Condition::new("a = ?1", 1)],
                vec![Condition::new("b = ?1", 0), Condition::new("b = ?1", 1)],
                vec![Condition::new("c = ?1", 2), Condition::new("b = ?1", 0)],
            ];
            let order = if is_newest_first { Order::NewestFirst } else { Order::OldestFirst };
            let mut common = CommonPositions::new(groups, order, first, last);
            let mut found = Vec::new();
            while let Some(position) = common.next(&connection).unwrap() {
                found.push(position);
            }
            let is_meant = |(a, b, c): (i64, i64, i64)| a == 1 && b <= 1 && (c == 2 || b == 0);
            let mut expected: Vec<i64> = (1..)
                .zip(rows)
                .filter(|(seq, row)| (first..=last).contains(seq) && is_meant(*row))
                .map(|(seq, _)| seq)
                .collect();
            if is_newest_first {
                expected.reverse();
            }
            prop_assert_eq!(found, expected);
        }
    }
}

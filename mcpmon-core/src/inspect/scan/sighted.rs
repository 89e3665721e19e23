//! The signals of a text, and what stands near which: no number of them makes that slow, and none of them is left out.

use std::{
    cell::{Cell, OnceCell},
    collections::BTreeMap,
    ops::Range,
};

use super::{
    engine::{Cases, ENGINE, Sighting},
    signals::Signal,
};

/// How often a signal without anchors is looked for window by window before all of the text is searched for it.
const ASKED: usize = 16;

/// The signals of a text.
pub(super) struct Sighted<'t> {
    cases: Cases<'t>,
    /// All that have anchors, by signal and then by place.
    of: BTreeMap<Signal, Group>,
    /// Those without, as far as they were asked for.
    beside: Vec<(Signal, Beside)>,
    /// The parts of the text that rules can look at.
    regions: Vec<Range<usize>>,
}

/// The sightings of one signal.
#[derive(Default)]
struct Group {
    all: Vec<Sighting>,
    spans: Spans,
}

/// Places in a text.
#[derive(Default)]
struct Spans {
    starts: Vec<usize>,
    /// The furthest end of the spans up to each.
    reach: Vec<usize>,
    /// All ends, ascending.
    ends: Vec<usize>,
}

/// What is known of a signal without anchors.
#[derive(Default)]
struct Beside {
    asked: Cell<usize>,
    everywhere: OnceCell<Spans>,
}

impl Spans {
    /// Of spans that ascend by their starts.
    fn of(spans: impl Iterator<Item = Range<usize>>) -> Self {
        let mut found = Self::default();
        let mut furthest = 0;
        for span in spans {
            furthest = span.end.max(furthest);
            found.starts.push(span.start);
            found.reach.push(furthest);
            found.ends.push(span.end);
        }
        found.ends.sort_unstable();
        found
    }

    /// Whether one of them touches `part`.
    fn touch(&self, part: &Range<usize>) -> bool {
        let before = self.starts.partition_point(|start| *start < part.end);
        before > 0 && self.reach[before - 1] > part.start
    }

    /// Whether one of them touches `part` and not `span`.
    fn touch_apart(&self, part: &Range<usize>, span: &Range<usize>) -> bool {
        let after = self.starts.partition_point(|start| *start < span.end);
        let before = self.ends.partition_point(|end| *end <= part.start);
        self.starts.get(after).is_some_and(|start| *start < part.end)
            || self.ends.get(before).is_some_and(|end| *end <= span.start)
    }
}

impl<'t> Sighted<'t> {
    /// Of the signals that have anchors, by place.
    pub(super) fn of(cases: Cases<'t>, sightings: Vec<Sighting>, regions: Vec<Range<usize>>) -> Self {
        let mut of: BTreeMap<Signal, Group> = BTreeMap::new();
        for sighting in sightings {
            of.entry(sighting.signal).or_default().all.push(sighting);
        }
        for group in of.values_mut() {
            group.spans = Spans::of(group.all.iter().map(|sighting| sighting.span.clone()));
        }
        let unanchored = Signal::unanchored().iter();
        Self {
            cases,
            of,
            beside: unanchored.map(|signal| (*signal, Beside::default())).collect(),
            regions,
        }
    }

    /// The parts of the text around what was sighted.
    pub(super) fn regions(&self) -> Vec<Range<usize>> {
        self.regions.clone()
    }

    /// Every sighting of a signal.
    pub(super) fn each(&self, signal: Signal) -> impl Iterator<Item = &Sighting> {
        self.of.get(&signal).into_iter().flat_map(|group| &group.all)
    }

    /// Whether any of `signals` stands in `part`, apart from the sighting that asks.
    pub(super) fn any_near(&self, signals: &[Signal], part: &Range<usize>, asking: &Sighting) -> bool {
        let anchored = signals.iter().any(|signal| {
            self.of.get(signal).is_some_and(|group| {
                if *signal == asking.signal {
                    group.spans.touch_apart(part, &asking.span)
                } else {
                    group.spans.touch(part)
                }
            })
        });
        anchored || signals.iter().any(|signal| self.is_beside(*signal, part))
    }

    fn is_beside(&self, signal: Signal, part: &Range<usize>) -> bool {
        let Some((_, beside)) = self.beside.iter().find(|(known, _)| *known == signal) else {
            return false;
        };
        if beside.asked.get() < ASKED {
            beside.asked.set(beside.asked.get() + 1);
            return ENGINE.is_beside(signal, &self.cases, part.clone());
        }
        let everywhere = beside.everywhere.get_or_init(|| {
            let regions = self.regions.iter().cloned();
            Spans::of(regions.flat_map(|region| ENGINE.all_beside(signal, &self.cases, region)))
        });
        everywhere.touch(part)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spans_are_found_as_by_looking_at_each(
            mut spans in prop::collection::vec((0..60_usize, 1..9_usize), 0..12),
            part in (0..60_usize, 1..20_usize),
            asking in 0..12_usize,
        ) {
            spans.sort_unstable();
            let spans: Vec<Range<usize>> = spans.into_iter().map(|(start, length)| start..start + length).collect();
            let part = part.0..part.0 + part.1;
            let found = Spans::of(spans.iter().cloned());
            let touches = |span: &Range<usize>| span.start < part.end && span.end > part.start;
            prop_assert_eq!(found.touch(&part), spans.iter().any(touches));
            if let Some(asking) = spans.get(asking) {
                // What asks stands in the part that it asks for.
                let part = part.start.min(asking.start)..part.end.max(asking.end);
                let touches = |span: &Range<usize>| span.start < part.end && span.end > part.start;
                let apart = |span: &Range<usize>| span.end <= asking.start || span.start >= asking.end;
                prop_assert_eq!(
                    found.touch_apart(&part, asking),
                    spans.iter().any(|span| touches(span) && apart(span))
                );
            }
        }
    }
}

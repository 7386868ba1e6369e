// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Builds replies for scripts, and hands them out call by call. Sends nothing.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::span::Span;

use super::script::{End, Plan, Reply, Route, Status};

/// The replies of all routes, and how far each queue was used.
#[derive(Debug, Default)]
pub(super) struct Queues {
    plans: BTreeMap<Route, Plan>,
    /// Of the reply at a queue's head: calls that had it, and when the first came.
    used: BTreeMap<Route, (u32, Instant)>,
}

impl Reply {
    /// The faithful reply, to be bent by the methods below.
    pub fn faithful() -> Self {
        Self::default()
    }

    /// A status code with an empty body.
    pub fn code(code: u16) -> Self {
        Self { code: Some(code), ..Self::default() }
    }

    /// 200 with this text, and no effect.
    pub fn text(body: &str) -> Self {
        Self { body: Some(body.into()), ..Self::default() }
    }

    /// 200 with a body of `len` bytes.
    pub fn filled(len: usize) -> Self {
        Self { fill: Some(len), ..Self::default() }
    }

    /// Accepted, and never answered.
    pub fn never() -> Self {
        Self { end: End::Never, effect: Some(false), ..Self::default() }
    }

    /// Reset before the first byte, without an effect.
    pub fn reset() -> Self {
        Self { end: End::Reset, effect: Some(false), ..Self::default() }
    }

    /// Bytes that are not HTTP.
    pub fn garbage(text: &str) -> Self {
        Self { end: End::Garbage(text.into()), effect: Some(false), ..Self::default() }
    }

    /// In the place of the faithful one.
    #[must_use]
    pub fn body(mut self, body: &str) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Before the next of the queue.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// Before the next of the queue.
    #[must_use]
    pub fn lasting(mut self, span: Duration) -> Self {
        self.lasting = Some(Span(span));
        self
    }

    /// Whether what the call asks for is done all the same.
    #[must_use]
    pub fn effect(mut self, happens: bool) -> Self {
        self.effect = Some(happens);
        self
    }

    /// What the double says afterwards.
    #[must_use]
    pub fn then_status(mut self, status: Status) -> Self {
        self.then_status = Some(status);
        self
    }

    /// Silence.
    #[must_use]
    pub fn before_head(mut self, span: Duration) -> Self {
        self.before_head = Span(span);
        self
    }

    /// Silence between head and body.
    #[must_use]
    pub fn before_body(mut self, span: Duration) -> Self {
        self.before_body = Span(span);
        self
    }

    /// In so many pieces over this time.
    #[must_use]
    pub fn chunked(mut self, pieces: usize, over: Duration) -> Self {
        self.chunks = Some(pieces);
        self.over = Span(over);
        self
    }

    /// How the connection ends.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The body and the state are the faithful sidecar's.
    pub(super) fn is_faithful(&self) -> bool {
        self.code.is_none() && self.body.is_none() && self.fill.is_none()
    }

    pub(super) fn has_effect(&self) -> bool {
        self.effect.unwrap_or_else(|| self.is_faithful())
    }
}

impl Queues {
    pub(super) fn new(plans: BTreeMap<Route, Plan>) -> Self {
        Self { plans, used: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, route: Route, reply: Reply) {
        self.plans.entry(route).or_default().queue.push_back(reply);
    }

    pub(super) fn set_default(&mut self, route: Route, reply: Option<Reply>) {
        self.plans.entry(route).or_default().default = reply;
    }

    /// Forgets all wishes: every route is faithful again.
    pub(super) fn clear(&mut self) {
        self.plans.clear();
        self.used.clear();
    }

    /// The reply for a call that comes at `now`.
    pub(super) fn take(&mut self, route: Route, now: Instant) -> Reply {
        let Some(plan) = self.plans.get_mut(&route) else {
            return Reply::faithful();
        };
        while let Some(front) = plan.queue.front() {
            let (count, first) = self.used.entry(route).or_insert((0, now));
            let over = match front.lasting {
                Some(Span(span)) => now.duration_since(*first) >= span && *count > 0,
                None => *count >= front.times,
            };
            if !over {
                *count += 1;
                return front.clone();
            }
            plan.queue.pop_front();
            self.used.remove(&route);
        }
        plan.default.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    fn codes(queues: &mut Queues, at: &[Instant]) -> Vec<Option<u16>> {
        at.iter().map(|now| queues.take(Route::Status, *now).code).collect()
    }

    #[test]
    fn a_queue_is_used_in_order_and_then_the_default() {
        let script = Script::default()
            .reply(Route::Status, Reply::code(500).times(2))
            .reply(Route::Status, Reply::code(404))
            .always(Route::Status, Reply::code(418));
        let mut queues = Queues::new(script.replies);
        let now = Instant::now();
        assert_eq!(codes(&mut queues, &[now; 5]), [Some(500), Some(500), Some(404), Some(418), Some(418)]);
        assert!(queues.take(Route::Config, now).is_faithful(), "other routes are untouched");
    }

    #[test]
    fn a_streak_in_time_ends_by_the_clock_not_by_the_count() {
        let script =
            Script::default().reply(Route::Status, Reply::code(503).lasting(Duration::from_secs(10)));
        let mut queues = Queues::new(script.replies);
        let begun = Instant::now();
        let at: Vec<_> = [0, 1, 9, 10].iter().map(|s| begun + Duration::from_secs(*s)).collect();
        assert_eq!(codes(&mut queues, &at), [Some(503), Some(503), Some(503), None]);
    }

    #[test]
    fn the_file_form_is_strict() {
        let script = Script::from_yaml(
            "validation_time: 2s\nreplies:\n  status:\n    queue:\n    - {end: after_head, effect: false}\n    - {end: {short: 3}}\n    - {body: \"Successful\\n\"}\n  config:\n    default: {chunks: 4, over: 3s}\n",
        )
        .unwrap();
        let status = &script.replies[&Route::Status].queue;
        assert_eq!(status[0], Reply::faithful().end(End::AfterHead).effect(false));
        assert_eq!(status[1], Reply::faithful().end(End::Short(3)));
        assert_eq!(status[2], Reply::text("Successful\n"));
        assert!(Script::from_yaml("validation_tyme: 2s").is_err());
        assert!(Script::from_yaml("replies: {status: {queue: [{cude: 500}]}}").is_err());
        assert_eq!(Script::from_yaml("").unwrap(), Script::default());
    }
}

//! Steps common to all dialects: texts are redacted, offered tools are collected and judged, and hidden tools are
//! removed with everything that refers to them.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use mcpmon_model::{LlmMention, Offered, OmittedCall, ProviderServer, RawJson, ToolName, Verdict, redacted};

use crate::{
    decode::json::{Member, Value, ValueKind, quote_into},
    llm::{ContentJudge, LlmFault, blocked::denial, strict, strict::FoundMember},
    rewrite::Splices,
};

/// The list of the members of a request.
pub(in crate::llm) const ROOT: ListId = ListId(0);

/// The depth to which a tool choice is searched for names.
const CHOICE_DEPTH: usize = 6;

/// Members of a definition that are texts for the model.
const DEFINITION_TEXTS: [&str; 6] = [
    "description",
    "title",
    "default",
    "example",
    "examples",
    "$comment",
];

/// The state while reading one request.
pub(in crate::llm) struct RequestReader<'t, 'j> {
    judge: &'j mut dyn ContentJudge,
    /// The members of the request.
    root: strict::Members<'t>,
    splices: Splices,
    redacted: usize,
    lists: Vec<ToolList>,
    offers: Vec<OfferedTool<'t>>,
    references: Vec<Reference<'t>>,
}

/// The number of a list from which items can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::llm) struct ListId(usize);

/// The treatment of a list that loses all its items.
#[derive(Clone, Debug)]
pub(in crate::llm) enum EmptyListTreatment {
    /// The list stays, empty.
    Nobody,
    /// The item of another list that contains it is removed too.
    Item(ListId, usize),
    /// The list has this range, and gets a text block in place of its items.
    Content(Range<usize>),
}

struct ToolList {
    places: Vec<Range<usize>>,
    goes: Vec<bool>,
    owner: EmptyListTreatment,
}

/// An offered tool, and its place.
struct OfferedTool<'t> {
    tool: Offered<'t>,
    list: ListId,
    item: usize,
}

/// A reference to a tool that a search found.
struct Reference<'t> {
    name: Cow<'t, str>,
    definition: Value<'t>,
    list: ListId,
    item: usize,
}

impl<'t, 'j> RequestReader<'t, 'j> {
    pub(in crate::llm) fn new(judge: &'j mut dyn ContentJudge) -> Self {
        Self {
            judge,
            root: strict::Members::default(),
            splices: Splices::default(),
            redacted: 0,
            lists: Vec::new(),
            offers: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Returns the edits, and the number of redacted places.
    pub(in crate::llm) fn finish(self) -> (Splices, usize) {
        (self.splices, self.redacted)
    }

    /// Returns the calls left out of the response with this id.
    pub(in crate::llm) fn unanswered(&mut self, response: &str) -> Vec<OmittedCall> {
        self.judge.unanswered(response)
    }

    /// Replaces a range of the request.
    pub(in crate::llm) fn put(&mut self, place: Range<usize>, new: impl Into<String>) {
        self.splices.put(place, new);
    }

    /// Begins reading a request.
    pub(in crate::llm) fn open(&mut self, root: Value<'t>) {
        self.lists.clear();
        self.offers.clear();
        self.references.clear();
        self.root = strict::Members::of(root);
        let places = self.root.all().iter().map(place).collect();
        self.list(places, EmptyListTreatment::Nobody);
    }

    /// Returns the value of the request's member `name`, in any spelling, unless it is `null`.
    pub(in crate::llm) fn value(&self, name: &'static str) -> Result<Option<Value<'t>>, LlmFault> {
        self.root.find(name).value()
    }

    /// Returns all members of the request, in order.
    pub(in crate::llm) fn root(&self) -> &[Member<'t>] {
        self.root.all()
    }

    /// Adds the members of an object as a list.
    pub(in crate::llm) fn members(&mut self, object: Value<'t>, owner: EmptyListTreatment) -> ListId {
        let places = object.members().map(|member| place(&member));
        self.list(places.collect(), owner)
    }

    /// Adds the items of an array as a list.
    pub(in crate::llm) fn items(
        &mut self,
        array: Value<'t>,
        owner: EmptyListTreatment,
    ) -> Result<ListId, LlmFault> {
        if array.kind() != ValueKind::Array {
            let cause = format!("no list at byte {}", array.range().start);
            return Err(LlmFault::Malformed { cause });
        }
        Ok(self.list(array.items().map(Value::range).collect(), owner))
    }

    fn list(&mut self, places: Vec<Range<usize>>, owner: EmptyListTreatment) -> ListId {
        let goes = vec![false; places.len()];
        self.lists.push(ToolList { places, goes, owner });
        ListId(self.lists.len() - 1)
    }

    /// Returns an array that is a member of the request, and adds its items as a list.
    pub(in crate::llm) fn array(
        &mut self,
        name: &'static str,
    ) -> Result<Option<(Value<'t>, ListId)>, LlmFault> {
        let Some(array) = self.value(name)? else {
            return Ok(None);
        };
        let members = self.root.all().iter();
        let before = members.take_while(|member| member.start < array.range().start);
        // The member is the last one that starts before the array.
        let position = before.count().saturating_sub(1);
        Ok(Some((
            array,
            self.items(array, EmptyListTreatment::Item(ROOT, position))?,
        )))
    }

    /// Notes that this item of a list offers a tool.
    pub(in crate::llm) fn offer(
        &mut self,
        name: ToolName<'t>,
        definition: Value<'t>,
        list: ListId,
        item: usize,
    ) -> Result<(), LlmFault> {
        if !definition.is_object() {
            let cause = format!(
                "a tool that is no JSON object at byte {}",
                definition.range().start
            );
            return Err(LlmFault::Malformed { cause });
        }
        self.described(definition);
        let definition = definition.raw();
        let tool = Offered { name, definition };
        self.offers.push(OfferedTool { tool, list, item });
        Ok(())
    }

    /// Notes that this item of a list names a tool, which may be offered elsewhere, or by this item only.
    pub(in crate::llm) fn refer(
        &mut self,
        name: Cow<'t, str>,
        definition: Value<'t>,
        list: ListId,
        item: usize,
    ) {
        self.references.push(Reference {
            name,
            definition,
            list,
            item,
        });
    }

    /// Judges a server that the provider is to use itself.
    pub(in crate::llm) fn remote(&mut self, remote: ProviderServer<'t>) -> Result<(), LlmFault> {
        let verdict = self.judge.judge(&LlmMention::Remote(remote));
        denial(verdict).map_or(Ok(()), |denial| Err(denial.into()))
    }

    /// Judges a tool that the provider is to run itself.
    pub(in crate::llm) fn hosted(&mut self, kind: Cow<'t, str>) -> Result<(), LlmFault> {
        let verdict = self.judge.judge(&LlmMention::Hosted { kind });
        denial(verdict).map_or(Ok(()), |denial| Err(denial.into()))
    }

    /// Redacts a text; any value but a string is ignored.
    pub(in crate::llm) fn text(&mut self, value: Value<'t>) {
        if value.kind() == ValueKind::String {
            self.literal(value.text(), value.range());
        }
    }

    /// Redacts the member `name`, in any spelling, if it is a string.
    pub(in crate::llm) fn text_of(&mut self, object: Value<'t>, name: &'static str) -> Result<(), LlmFault> {
        let [text] = strict::find(object, [name]);
        self.found(text)
    }

    /// Redacts the request's member `name`, in any spelling, if it is a string.
    pub(in crate::llm) fn text_of_request(&mut self, name: &'static str) -> Result<(), LlmFault> {
        self.found(self.root.find(name))
    }

    /// Redacts a found member, if it is a string.
    pub(in crate::llm) fn found(&mut self, text: FoundMember<'t>) -> Result<(), LlmFault> {
        if let Some(value) = text.value()? {
            self.text(value);
        }
        Ok(())
    }

    /// Redacts all texts in a value, except the names of members.
    pub(in crate::llm) fn texts(&mut self, value: Value<'t>) {
        let start = value.range().start;
        for place in literals(value.text()) {
            self.literal(
                &value.text()[place.clone()],
                start + place.start..start + place.end,
            );
        }
    }

    /// Redacts content: a text, or the texts of those parts that have one of these types or none.
    pub(in crate::llm) fn content(&mut self, content: Value<'t>, types: &[&str]) -> Result<(), LlmFault> {
        self.text(content);
        for part in content.items() {
            self.text(part);
            let [kind, text] = strict::find(part, ["type", "text"]);
            if kind.text()?.is_none_or(|kind| types.contains(&&*kind)) {
                self.found(text)?;
            }
        }
        Ok(())
    }

    /// Redacts the arguments of a tool call: an object, or JSON in a string, which stays JSON. Names of members stay.
    pub(in crate::llm) fn arguments(&mut self, value: Value<'t>) {
        let inner = value.string();
        match inner.filter(|inner| strict::read(inner.as_bytes(), |_, _| ()).is_ok()) {
            Some(inner) => self.inner_json(&inner, value.range()),
            None => self.texts(value),
        }
    }

    /// Redacts the arguments in the member `name`, in any spelling, if there is one.
    pub(in crate::llm) fn arguments_of(
        &mut self,
        object: Value<'t>,
        name: &'static str,
    ) -> Result<(), LlmFault> {
        if let Some(value) = strict::value(object, name)? {
            self.arguments(value);
        }
        Ok(())
    }

    /// Redacts all texts in JSON that is a string itself, at `place`.
    fn inner_json(&mut self, json: &str, place: Range<usize>) {
        let mut splices = Splices::default();
        for literal in literals(json) {
            if let Some(new) = self.redacted(&json[literal.clone()]) {
                splices.put(literal, new);
            }
        }
        if !splices.is_empty() {
            let mut new = String::with_capacity(json.len());
            quote_into(&splices.apply(json), &mut new);
            self.splices.put(place, new);
        }
    }

    /// Redacts what a definition says about a tool and its parameters. Values by which a provider checks calls stay.
    fn described(&mut self, definition: Value<'t>) {
        for item in definition.items() {
            self.described(item);
        }
        for member in definition.members() {
            let is_text = |name: &&str| strict::stands_for(member.name, name);
            match DEFINITION_TEXTS.iter().any(is_text) {
                // An object of that name is a parameter, or an example.
                true => self.texts(member.value),
                false => self.described(member.value),
            }
        }
    }

    fn literal(&mut self, literal: &str, place: Range<usize>) {
        if let Some(new) = self.redacted(literal) {
            self.splices.put(place, new);
        }
    }

    /// Returns a JSON string without what is redacted in it; `None` if it is unchanged.
    fn redacted(&mut self, literal: &str) -> Option<String> {
        let text = RawJson::trusted(literal).text()?;
        let redactions = self.judge.redact(&text);
        if redactions.is_empty() {
            return None;
        }
        self.redacted += redactions.len();
        let mut new = String::with_capacity(literal.len());
        quote_into(&redacted(&text, &redactions), &mut new);
        Some(new)
    }

    /// Judges all offers of a request, and removes the hidden ones.
    pub(in crate::llm) fn close(&mut self, root: Value<'t>) -> Result<(), LlmFault> {
        let references = self.resolve()?;
        let offers = std::mem::take(&mut self.offers);
        if offers.is_empty() {
            return Ok(());
        }
        let (tools, places): (Vec<_>, Vec<_>) = offers
            .into_iter()
            .map(|offer| (offer.tool, (offer.list, offer.item)))
            .unzip();
        let said = LlmMention::Offered(tools);
        let hidden = match self.judge.judge(&said) {
            Verdict::Hide(hidden) => hidden,
            verdict @ (Verdict::Allow
            | Verdict::Block(_)
            | Verdict::Redact(_)
            | Verdict::Ask(_)
            | Verdict::StripInstructions) => {
                return denial(verdict).map_or(Ok(()), |denial| Err(denial.into()));
            }
        };
        let LlmMention::Offered(tools) = said else {
            return Ok(());
        };
        let mut names = BTreeSet::new();
        for at in hidden {
            if let (Some(tool), Some((list, item))) = (tools.get(at), places.get(at)) {
                names.insert(&*tool.name.name);
                self.lists[list.0].goes[*item] = true;
            }
        }
        for reference in references {
            if names.contains(&*reference.name) {
                self.lists[reference.list.0].goes[reference.item] = true;
            }
        }
        if !names.is_empty() {
            self.leave_out(root, &names);
        }
        Ok(())
    }

    /// Turns references to tools that are not offered into offers. Returns the other references.
    fn resolve(&mut self) -> Result<Vec<Reference<'t>>, LlmFault> {
        if self.references.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.offers.iter().map(|offer| offer.tool.name.name.clone());
        let names: BTreeSet<Cow<'t, str>> = names.collect();
        let references = std::mem::take(&mut self.references);
        let (known, alone) = references
            .into_iter()
            .partition::<Vec<_>, _>(|reference| names.contains(&reference.name));
        for Reference {
            name,
            definition,
            list,
            item,
        } in alone
        {
            self.offer(named(name), definition, list, item)?;
        }
        Ok(known)
    }

    fn leave_out(&mut self, root: Value<'t>, names: &BTreeSet<&str>) {
        // A list comes after the list that contains its owner.
        for at in (0..self.lists.len()).rev() {
            let list = &self.lists[at];
            let loses_all = !list.goes.is_empty() && list.goes.iter().all(|goes| *goes);
            match (loses_all, list.owner.clone()) {
                (true, EmptyListTreatment::Item(owner, item)) => self.lists[owner.0].goes[item] = true,
                (true, EmptyListTreatment::Content(place)) => self.splices.put(place, HIDDEN),
                (false, _) | (true, EmptyListTreatment::Nobody) => {}
            }
        }
        self.drop_choices(root, names);
        for list in &self.lists {
            self.splices.leave_out(&list.places, |item| list.goes[item]);
        }
    }

    /// Removes members that choose among tools, if a tool that they name is removed, or all tools are.
    fn drop_choices(&mut self, root: Value<'t>, names: &BTreeSet<&str>) {
        let goes = &mut self.lists[ROOT.0].goes;
        let has_gone = |goes: &[bool], name: &str| {
            let mut members = root.members().zip(goes);
            members.any(|(member, goes)| *goes && strict::stands_for(member.name, name))
        };
        let (tools, functions) = (has_gone(goes, "tools"), has_gone(goes, "functions"));
        for (member, goes) in root.members().zip(goes) {
            let is = |name| strict::stands_for(member.name, name);
            let is_choice = is("tool_choice") || is("tool_config") || is("function_call");
            *goes |= tools && (is("tool_choice") || is("tool_config") || is("parallel_tool_calls"));
            *goes |= functions && is("function_call");
            *goes |= is_choice && chooses(member.value, names, CHOICE_DEPTH);
        }
    }
}

/// The content of a list that must not be empty.
const HIDDEN: &str = r#"[{"type":"text","text":"[mcpmon] Hidden by policy."}]"#;

/// Returns a tool's name without a namespace.
pub(in crate::llm) const fn named(name: Cow<'_, str>) -> ToolName<'_> {
    ToolName {
        namespace: None,
        name,
    }
}

/// Returns the range of a member, with its name.
fn place(member: &Member<'_>) -> Range<usize> {
    member.start..member.value.range().end
}

/// Returns whether a choice among tools names one of these.
fn chooses(choice: Value<'_>, names: &BTreeSet<&str>, depth: usize) -> bool {
    let is_named = |value: Value<'_>| value.string().is_some_and(|name| names.contains(&*name));
    if depth == 0 {
        return true;
    }
    choice.items().any(|item| chooses(item, names, depth - 1))
        || choice.members().any(|member| {
            let names_one = strict::stands_for(member.name, "name") && is_named(member.value);
            let names_some =
                strict::stands_for(member.name, "allowedFunctionNames") && member.value.items().any(is_named);
            names_one || names_some || chooses(member.value, names, depth - 1)
        })
}

/// Returns the ranges of the strings of a JSON text that are values.
fn literals(json: &str) -> Vec<Range<usize>> {
    let bytes = json.as_bytes();
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &bytes[at..]) {
        let start = at + quote;
        let mut end = start + 1;
        while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[end..]) {
            end += found + 1;
            if bytes[end - 1] == b'"' {
                break;
            }
            end += 1;
        }
        at = end;
        let next = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace());
        if next != Some(&b':') {
            places.push(start..end);
        }
    }
    places
}

//! DNS messages from untrusted senders, parsed as far as possible.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use hickory_resolver::proto::{
    op::{Header, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType},
    serialize::binary::{BinDecodable as _, BinDecoder},
};
use mcpmon_policy::{HostName, network::followed::DnsAnswer};

/// Most records of an answer that are examined: more do not fit into the copied bytes.
const MAX_RECORDS: usize = 512;
/// Most aliases (CNAME) that are followed from a name.
const MAX_ALIASES: usize = 16;

/// Returns the addresses for the requested name in an answer of `server`, including those of its aliases. Returns
/// `None` if the message does not answer a question for addresses, or has none.
pub fn answer(message: &[u8], server: IpAddr) -> Option<DnsAnswer> {
    let mut decoder = BinDecoder::new(message);
    let header = Header::read(&mut decoder).ok()?;
    let is_answer = header.metadata.message_type == MessageType::Response
        && header.metadata.op_code == OpCode::Query
        && header.metadata.response_code == ResponseCode::NoError
        && header.counts.queries == 1;
    if !is_answer {
        return None;
    }
    let query = Message::read_queries(&mut decoder, 1).ok()?.pop()?;
    if !matches!(query.query_type, RecordType::A | RecordType::AAAA) || query.query_class != DNSClass::IN {
        return None;
    }
    let records = records(&mut decoder, usize::from(header.counts.answers));
    let addresses = addresses(&query, &records);
    let name = host_name(&query.name)?;
    (!addresses.is_empty()).then_some(DnsAnswer {
        name,
        addresses,
        server,
    })
}

/// Returns the records up to the first invalid one: a client may parse less strictly, and would accept these records
/// too.
fn records(decoder: &mut BinDecoder<'_>, count: usize) -> Vec<Record> {
    let read = |_| Record::read(decoder).ok();
    (0..count.min(MAX_RECORDS)).map_while(read).collect()
}

fn addresses(query: &Query, records: &[Record]) -> Vec<(IpAddr, Duration)> {
    let names = names(&query.name, records);
    let asked = records.iter().filter(|record| {
        record.dns_class == DNSClass::IN
            && record.record_type() == query.query_type
            && names.contains(&record.name)
    });
    let address = |record: &Record| {
        let lifetime = Duration::from_secs(record.ttl.into());
        Some((record.data.ip_addr()?, lifetime))
    };
    asked.filter_map(address).collect()
}

/// Returns the name and its aliases, in whatever order the records come.
fn names<'r>(asked: &'r Name, records: &'r [Record]) -> BTreeSet<&'r Name> {
    let mut names = BTreeSet::from([asked]);
    let mut last = asked;
    for _ in 0..MAX_ALIASES {
        let next = records.iter().find_map(|record| {
            let RData::CNAME(alias) = &record.data else {
                return None;
            };
            (record.name == *last).then_some(&alias.0)
        });
        match next {
            Some(next) if names.insert(next) => last = next,
            Some(_) | None => break,
        }
    }
    names
}

fn host_name(name: &Name) -> Option<HostName> {
    name.to_ascii().parse().ok()
}

#[cfg(test)]
mod tests {
    use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME};
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    const SERVER: &str = "192.0.2.53";

    #[test_case("evil.example", &[("evil.example", "198.51.100.7")] => vec!["198.51.100.7"]; "an address")]
    #[test_case("EVIL.Example", &[("evil.EXAMPLE", "198.51.100.7")] => vec!["198.51.100.7"]; "in capitals")]
    #[test_case("evil.example", &[("good.example", "198.51.100.7")] => Vec::<String>::new(); "of another name")]
    #[test_case("evil.example", &[("evil.example", "cdn.example"), ("cdn.example", "198.51.100.7")] => vec!["198.51.100.7"]; "by an alias")]
    #[test_case("evil.example", &[("cdn.example", "198.51.100.7"), ("evil.example", "cdn.example")] => vec!["198.51.100.7"]; "in another order")]
    #[test_case("evil.example", &[("other.example", "cdn.example"), ("cdn.example", "198.51.100.7")] => Vec::<String>::new(); "by an alias of another name")]
    #[test_case("evil.example", &[("evil.example", "b.example"), ("b.example", "evil.example")] => Vec::<String>::new(); "in a circle")]
    #[test_case("evil.example", &[("evil.example", "2001:db8::7")] => Vec::<String>::new(); "of another family than was asked for")]
    fn addresses_of_the_name_asked_for(asked: &str, records: &[(&str, &str)]) -> Vec<String> {
        told(&encoded(asked, RecordType::A, records))
    }

    #[test]
    fn the_other_family() {
        let message = encoded(
            "evil.example",
            RecordType::AAAA,
            &[("evil.example", "2001:db8::7")],
        );
        assert_eq!(told(&message), ["2001:db8::7"]);
    }

    #[test]
    fn aliases_have_an_end() {
        let names: Vec<String> = (0..=MAX_ALIASES + 1)
            .map(|number| format!("n{number}.example"))
            .collect();
        let mut records: Vec<(&str, &str)> = names
            .windows(2)
            .map(|pair| (pair[0].as_str(), pair[1].as_str()))
            .collect();
        records.push((&names[MAX_ALIASES + 1], "198.51.100.7"));
        let of = |asked: &str| told(&encoded(asked, RecordType::A, &records));
        assert_eq!(of(&names[0]), [] as [&str; 0]);
        assert_eq!(of(&names[1]), ["198.51.100.7"]);
    }

    #[test]
    fn what_comes_before_an_unreadable_record_counts() {
        let mut message = encoded("evil.example", RecordType::A, &[("evil.example", "198.51.100.7")]);
        message[7] = 9;
        assert_eq!(told(&message), ["198.51.100.7"]);
        // A compression pointer to itself.
        let at = u8::try_from(message.len()).expect("short");
        message.extend([0xc0, at, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 1, 2, 3, 4]);
        assert_eq!(told(&message), ["198.51.100.7"]);
    }

    #[test_case(2, 0x01; "a question")]
    #[test_case(2, 0xa1; "of another kind")]
    #[test_case(3, 0x83; "of a name that does not exist")]
    #[test_case(5, 2; "to two questions")]
    #[test_case(5, 0; "to none")]
    fn other_messages_are_not_answers(place: usize, byte: u8) {
        let mut message = encoded("evil.example", RecordType::A, &[("evil.example", "198.51.100.7")]);
        message[place] = byte;
        assert_eq!(told(&message), [] as [&str; 0]);
    }

    proptest! {
        #[test]
        fn bytes_of_anybody_are_read_or_not(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let read = answer(&bytes, ip(SERVER));
            prop_assert!(read.is_none_or(|read| !read.addresses.is_empty()));
        }

        #[test]
        fn a_damaged_answer_tells_nothing_of_another_name(place in 0_usize..64, byte in any::<u8>()) {
            let mut message = encoded("evil.example", RecordType::A, &[("evil.example", "cdn.example"), ("cdn.example", "198.51.100.7")]);
            let place = place % message.len();
            message[place] = byte;
            if let Some(answer) = answer(&message, ip(SERVER)) {
                // Whatever is parsed of it belongs to the name in the question.
                let asked = BinDecoder::new(&message);
                let mut asked = asked.clone(12);
                let name = Name::read(&mut asked).expect("a name that was read");
                prop_assert_eq!(answer.name.as_str(), name.to_ascii().trim_end_matches('.').to_ascii_lowercase());
                prop_assert!(answer.addresses.len() <= 2);
            }
        }
    }

    fn told(message: &[u8]) -> Vec<String> {
        let answer = answer(message, ip(SERVER));
        answer.map_or_else(Vec::new, |answer| {
            assert_eq!(answer.server, ip(SERVER));
            answer
                .addresses
                .iter()
                .map(|(address, _)| address.to_string())
                .collect()
        })
    }

    /// An answer with these records: each has a name, and an address or alias of it.
    fn encoded(asked: &str, kind: RecordType, records: &[(&str, &str)]) -> Vec<u8> {
        let name = |text: &str| Name::from_ascii(format!("{text}.")).expect("a name");
        let mut message = Message::response(7, OpCode::Query);
        message.add_query(Query::query(name(asked), kind));
        for (owner, target) in records {
            let data = match target.parse() {
                Ok(IpAddr::V4(v4)) => RData::A(A(v4)),
                Ok(IpAddr::V6(v6)) => RData::AAAA(AAAA(v6)),
                Err(_) => RData::CNAME(CNAME(name(target))),
            };
            message.add_answer(Record::from_rdata(name(owner), 60, data));
        }
        message.to_vec().expect("a message")
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }
}

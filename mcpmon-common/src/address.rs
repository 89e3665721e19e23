//! The address that a connection really reaches, in whatever form it was written.
//!
//! Both sides share this description: the kernel programs apply it before every look-up, and tests of the daemon prove
//! it. Sources: RFC 4291 §2.5.5.2 (mapped), RFC 6052 §2.1 (64:ff9b::/96), RFC 3056 (2002::/16), and
//! `tcp_v4_connect`/`tcp_v6_connect` for the unspecified address, which Linux takes as "this host".

/// The form in which an address was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Nothing to translate.
    Plain = 0,
    /// `::ffff:a.b.c.d`: the kernel itself connects over IPv4.
    Mapped = 1,
    /// `0.0.0.0`, `::` or `::ffff:0.0.0.0`: reaches this host.
    Any = 2,
    /// `64:ff9b::a.b.c.d`: a translator reaches the IPv4 address.
    Nat64 = 3,
    /// `2002:aabb:ccdd::/48`: a relay reaches the IPv4 address.
    SixToFour = 4,
}

/// IPv4 loopback, where the unspecified address leads.
pub const LOOPBACK4: [u8; 4] = [127, 0, 0, 1];
/// IPv6 loopback.
pub const LOOPBACK6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// The decoded destination of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target6 {
    /// The form in which it was written.
    pub form: Form,
    /// True if rules for IPv6 addresses are tried on it (on [`LOOPBACK6`] for [`Form::Any`]).
    pub try6: bool,
    /// True if rules for IPv4 addresses are tried on `v4`.
    pub try4: bool,
    /// The IPv4 address inside, if `try4` is set.
    pub v4: [u8; 4],
}

/// Classifies an IPv6 destination given as its four 32-bit words in network order.
#[inline(always)]
pub fn classify6(words: [u32; 4]) -> Target6 {
    let last = words[3].to_ne_bytes();
    if words[0] == 0 && words[1] == 0 {
        if words[2] == 0 && words[3] == 0 {
            return Target6 {
                form: Form::Any,
                try6: true,
                try4: true,
                v4: LOOPBACK4,
            };
        }
        if words[2] == 0x0000_ffffu32.to_be() {
            return if words[3] == 0 {
                Target6 {
                    form: Form::Any,
                    try6: false,
                    try4: true,
                    v4: LOOPBACK4,
                }
            } else {
                Target6 {
                    form: Form::Mapped,
                    try6: false,
                    try4: true,
                    v4: last,
                }
            };
        }
    }
    if words[0] == 0x0064_ff9bu32.to_be() && words[1] == 0 && words[2] == 0 {
        return Target6 {
            form: Form::Nat64,
            try6: true,
            try4: true,
            v4: last,
        };
    }
    let first = words[0].to_ne_bytes();
    if first[0] == 0x20 && first[1] == 0x02 {
        let second = words[1].to_ne_bytes();
        let v4 = [first[2], first[3], second[0], second[1]];
        return Target6 {
            form: Form::SixToFour,
            try6: true,
            try4: true,
            v4,
        };
    }
    Target6 {
        form: Form::Plain,
        try6: true,
        try4: false,
        v4: [0; 4],
    }
}

/// Returns the four words, in network order, of an IPv6 address.
#[inline(always)]
pub const fn words(address: [u8; 16]) -> [u32; 4] {
    let a = address;
    [
        u32::from_ne_bytes([a[0], a[1], a[2], a[3]]),
        u32::from_ne_bytes([a[4], a[5], a[6], a[7]]),
        u32::from_ne_bytes([a[8], a[9], a[10], a[11]]),
        u32::from_ne_bytes([a[12], a[13], a[14], a[15]]),
    ]
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::net::Ipv6Addr;
    use proptest::prelude::*;

    use super::*;

    fn classify(text: &str) -> Target6 {
        classify6(words(text.parse::<Ipv6Addr>().expect("address").octets()))
    }

    #[test]
    fn every_form_is_recognised_and_its_neighbours_are_not() {
        let cases = [
            ("::", Form::Any, true, Some([127, 0, 0, 1])),
            ("::ffff:0.0.0.0", Form::Any, false, Some([127, 0, 0, 1])),
            ("::ffff:10.1.2.3", Form::Mapped, false, Some([10, 1, 2, 3])),
            ("64:ff9b::10.1.2.3", Form::Nat64, true, Some([10, 1, 2, 3])),
            ("2002:a01:203::5", Form::SixToFour, true, Some([10, 1, 2, 3])),
            ("::1", Form::Plain, true, None),
            ("::fffe:10.1.2.3", Form::Plain, true, None),
            ("0:0:0:1:0:ffff:a01:203", Form::Plain, true, None),
            ("64:ff9b:1::10.1.2.3", Form::Plain, true, None),
            ("2003:a01:203::5", Form::Plain, true, None),
        ];
        for (text, form, try6, v4) in cases {
            let target = classify(text);
            assert_eq!((target.form, target.try6), (form, try6), "{text}");
            assert_eq!(target.try4.then_some(target.v4), v4, "{text}");
        }
    }

    proptest! {
        #[test]
        fn mapped_addresses_agree_with_std(bits in any::<u128>()) {
            let address = Ipv6Addr::from(bits);
            let target = classify6(words(address.octets()));
            let mapped = address.to_ipv4_mapped();
            prop_assert_eq!(matches!(target.form, Form::Mapped), mapped.is_some_and(|v4| !v4.is_unspecified()));
        }

        #[test]
        fn a_v4_address_is_found_in_each_of_its_forms(v4 in any::<[u8; 4]>().prop_filter("any", |a| *a != [0; 4])) {
            let [a, b, c, d] = v4;
            let forms = [
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d],
                [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d],
                [0x20, 2, a, b, c, d, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
            ];
            for form in forms {
                let target = classify6(words(form));
                prop_assert!(target.try4);
                prop_assert_eq!(target.v4, v4);
            }
        }
    }
}

//! Reads the corpora and counts.
#![allow(clippy::all, clippy::pedantic, clippy::restriction, unused_qualifications, unreachable_pub)]
use std::collections::*;
use mcpmon_detect::*;
use serde_json::Value;

struct Item { id: String, texts: Vec<(Place, String)>, len: usize, server: String, malicious: bool, tier: String, corpus: String, kind: String, own: HashSet<String>, held: bool, real: bool, lang: String }

fn hash(s: &str) -> bool { // fnv, top bits
    let mut h: u64 = 0xcbf29ce484222325; for b in s.bytes() { h ^= b as u64; h = h.wrapping_mul(0x100000001b3); } 
    (h ^ (h >> 32)).count_ones() % 2 == 1 }

fn walk(v: &Value, path: &mut Vec<String>, out: &mut Vec<(Vec<String>, String)>) {
    match v { Value::String(s) => out.push((path.clone(), s.clone())),
        Value::Array(a) => for (i, x) in a.iter().enumerate() { path.push(i.to_string()); walk(x, path, out); path.pop(); },
        Value::Object(o) => for (k, x) in o { path.push(k.clone()); walk(x, path, out); path.pop(); }, _ => {} }
}
fn keys(v: &Value, out: &mut HashSet<String>) { match v { Value::Array(a) => a.iter().for_each(|x| keys(x, out)), Value::Object(o) => for (k, x) in o { out.insert(k.to_lowercase()); keys(x, out); }, Value::String(s) if s.len() < 41 && !s.contains(' ') => { out.insert(s.to_lowercase()); } _ => {} } }

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let part = args.iter().find(|a| *a == "tune" || *a == "held" || *a == "all" || *a == "val" || *a == "final").cloned().unwrap_or("tune".into());
    let show = args.iter().find_map(|a| a.strip_prefix("show=")).unwrap_or("").to_string();
    let only = args.iter().find_map(|a| a.strip_prefix("rule=")).unwrap_or("").to_string();
    let files = [("tool_definition", "definition"), ("benign_servers", "definition"), ("benign/definitions", "definition"), ("benign/instructions", "instructions"), ("benign/prompts", "prompt"), ("tool_output", "output"), ("benign/outputs", "output"), ("../../tmp/own_d", "definition"), ("../../tmp/own_o", "output")];
    let kind_filter = args.iter().find_map(|a| a.strip_prefix("kind=")).unwrap_or("").to_string();
    let mut items = Vec::new();
    for (file, kind) in files {
        let text = std::fs::read_to_string(format!("/work/corpora/{file}.jsonl")).unwrap();
        for line in text.lines() {
            let o: Value = serde_json::from_str(line).unwrap();
            let s = |k: &str| o[k].as_str().unwrap_or("").to_string();
            let kind = if s("kind") == "instructions" { "instructions" } else { kind };
            let corpus = s("corpus");
            let malicious = s("label") == "malicious";
            let mut server = s("server");
            if server.is_empty() { server = s("source"); }
            let real = !server.is_empty();
            if server.is_empty() { server = format!("{corpus}/{}", if malicious { String::new() } else { s("source_path").split('/').take(3).collect::<Vec<_>>().join("/") }); }
            let split = if malicious || !real { corpus.clone() } else { server.clone() };
            let held = if s("tier") == "own" { part == "held" } else if malicious { matches!(corpus.as_str(), "agent_egress_bench"|"atr"|"mcp_sentinel"|"mcpproxy"|"msb"|"webr0ck"|"bipia") } else if real { hash(&split) } else { hash(&s("id")) };
            let p = &o["payload"];
            let mut texts = Vec::new();
            let mut own = HashSet::new();
            if kind == "output" { let t = p.as_str().map(String::from).unwrap_or_else(|| p.to_string()); texts.push((Place::Output, t)); }
            else if let Some(t) = p.as_str() { texts.push((Place::Description, t.into())); }
            else {
                let mut all = Vec::new(); walk(p, &mut Vec::new(), &mut all);
                keys(&p["inputSchema"], &mut own); keys(&p["outputSchema"], &mut own);
                if let Some(n) = p["name"].as_str() { own.insert(n.to_lowercase()); }
                for (path, t) in all { let schema = path.first().is_some_and(|x| x == "inputSchema" || x == "outputSchema"); if t.len() > 10 { texts.push((if schema { Place::Schema } else { Place::Description }, t)); } }
            }
            for (_, t) in &mut texts { if !t.is_ascii() { use unicode_normalization::*; *t = t.nfkc().flat_map(|c| { let mut v: Vec<char> = Vec::new(); if (0x3040..0xd7ff).contains(&(c as u32)) { v.push(c) } else { unicode_normalization::char::decompose_compatible(c, |p| if !unicode_normalization::char::is_combining_mark(p) && !(0x200b..=0x206f).contains(&(p as u32)) { v.push(p) }) } v }).flat_map(|c| if c.is_ascii() { vec![c] } else { c.to_lowercase().collect() }).collect(); } }
            items.push(Item { id: s("id"), len: p.to_string().len(), texts, server, malicious, tier: s("tier"), corpus, kind: kind.into(), own, held, real, lang: s("lang") });
        }
    }
    // names of a server's own tools
    let mut names: HashMap<String, HashSet<String>> = HashMap::new();
    for i in &items { if i.real && i.kind == "definition" { names.entry(i.server.clone()).or_default().extend(i.own.iter().cloned()); } }
    if args.iter().any(|a| a == "anchors") { let a: Vec<_> = anchors().collect(); println!("{} {:?}", a.len(), a); return; }
    #[derive(Default)] struct C { n: usize, alert: usize, act: usize }
    let mut groups: BTreeMap<String, C> = BTreeMap::new();
    let mut servers: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    let mut by_rule: BTreeMap<String, [usize; 6]> = BTreeMap::new();
    let mut long = C::default();
    let mut region_bytes = 0usize; let mut out_bytes = 0usize; let mut out_time = 0u128; let mut times: Vec<u128> = Vec::new(); let mut bytes = 0usize;
    // warm
    let _ = matches("x", &Context { place: Place::Output, own: &[], others: &[], is_document: false }, []); let ac = aho_corasick::AhoCorasick::new(anchors()).unwrap();
    for i in &items {
        let is_val = if i.malicious { matches!(i.corpus.as_str(), "atr" | "agent_egress_bench" | "mcp_sentinel" | "webr0ck") } else { hash(&format!("v{}", if i.real { &i.server } else { &i.id })) };
        if part == "val" && !(i.held && is_val) || part == "final" && !(i.held && !is_val) { continue; }
        if (part == "tune" || part == "held") && (part == "held") != i.held { continue; }
        if !kind_filter.is_empty() && kind_filter != i.kind { continue; }
        let own = if i.real { names.get(&i.server).unwrap_or(&i.own) } else { &i.own }; let own: Vec<&str> = own.iter().map(|x| x.as_str()).collect(); let own = &own[..];
        let t0 = std::time::Instant::now();
        let mut ms = Vec::new();
        for (place, text) in &i.texts {
            let lower0 = text.to_ascii_lowercase(); let at: Vec<_> = if *place == Place::Output { ac.find_overlapping_iter(&lower0).map(|m| m.range()).collect() } else { Vec::new() }; for m in matches(text, &Context { place: *place, own, others: &[], is_document: false }, at) {
                let lower = text.to_ascii_lowercase(); ms.push((m.rule.id.clone(), m.outcome, lower[m.span.clone()].to_string(), *place)); } }
        if i.kind == "output" && !i.malicious { out_bytes += i.texts[0].1.len(); out_time += t0.elapsed().as_nanos(); } if i.kind == "definition" { times.push(t0.elapsed().as_nanos()); }
        bytes += i.texts.iter().map(|x| x.1.len()).sum::<usize>();
        let worst = ms.iter().map(|m| m.1).max();
        let key = if i.malicious { format!("ATTACK {} {} {}", i.kind, i.tier, i.corpus) } else { format!("benign {} {}", i.kind, if i.real && i.tier != "quotes_attacks" { "real".to_string() } else { i.tier.clone() }) };
        let g = groups.entry(key.clone()).or_default();
        g.n += 1; if worst >= Some(Outcome::Alert) { g.alert += 1 } if worst >= Some(Outcome::Act) { g.act += 1 }
        if !i.malicious && i.kind == "definition" && i.real { let s = servers.entry(i.server.clone()).or_default(); s.0 += 1; if worst >= Some(Outcome::Alert) { s.1 += 1 } if worst >= Some(Outcome::Act) { s.2 += 1 }
            if i.len > 4000 { long.n += 1; if worst >= Some(Outcome::Alert) { long.alert += 1 } if worst >= Some(Outcome::Act) { long.act += 1 } } }
        let core = i.tier == "core" || i.tier.is_empty() || i.tier == "own";
        let set: BTreeSet<_> = ms.iter().filter(|m| m.1 >= Outcome::Alert).map(|m| m.0.clone()).collect();
        for r in &set { let e = by_rule.entry(r.clone()).or_default(); let o = if i.kind == "output" { 3 } else { 0 };
            if i.malicious && core { e[o] += 1; if set.len() == 1 { e[o + 1] += 1 } } else if !i.malicious { e[o + 2] += 1 } }
        if args.iter().any(|a| a == "dump") { println!("DUMP\t{}\t{}\t{}\t{}\t{}", i.id, i.malicious, i.kind, i.tier, ms.iter().map(|m| format!("{}:{:?}", m.0, m.1)).collect::<Vec<_>>().join(" ")); }
        let is = match show.as_str() { "fp" => !i.malicious && worst >= Some(Outcome::Alert), "fpact" => !i.malicious && worst >= Some(Outcome::Act), "miss" => i.malicious && core && worst < Some(Outcome::Alert), "missact" => i.malicious && core && worst < Some(Outcome::Act), "hit" => i.malicious && core && worst.is_some(), _ => false };
        if is && (only.is_empty() || set.contains(&only)) {
            println!("## {key} {} {} [{}]", i.id, i.server, i.lang);
            if i.malicious { for (p, t) in &i.texts { println!("   TEXT {p:?}: {}", t.chars().take(900).collect::<String>().replace('\n', " / ")); if args.iter().any(|a| a == "explain") { for (s, n) in explain(t, &Context { place: *p, own, others: &[], is_document: false }) { let l = t.to_ascii_lowercase(); if !n.is_empty() { println!("      {:?} {}", n, &l[s].replace('\n', " ").chars().take(120).collect::<String>()) } } } } }
            for (r, o, t, p) in &ms { if *o >= Outcome::Alert && (only.is_empty() || *r == only) { println!("   {r} {o:?} {p:?}: {}", t.chars().take(400).collect::<String>().replace('\n', " / ")); } }
        }
    }
    if args.iter().any(|a| a == "quiet") { return; }
    for (k, c) in &groups { if k.starts_with("benign") || k.contains(" core ") || k.contains(" own ") || k.contains("semantic") || args.iter().any(|a| a == "tiers") { println!("{k:55} n {:5} alert {:5.2} % act {:5.2} %   ({} {})", c.n, 100. * c.alert as f64 / c.n as f64, 100. * c.act as f64 / c.n as f64, c.alert, c.act); } }
    for kind in ["definition", "output"] { let gs: Vec<_> = groups.iter().filter(|(k, _)| k.starts_with(&format!("ATTACK {kind} core"))).map(|(_, c)| c).collect();
        let n: usize = gs.iter().map(|c| c.n).sum(); let m = gs.len() as f64;
        println!("{kind} core: pooled alert {:.1} act {:.1}, macro alert {:.1} act {:.1} (n {n})", 100. * gs.iter().map(|c| c.alert).sum::<usize>() as f64 / n as f64, 100. * gs.iter().map(|c| c.act).sum::<usize>() as f64 / n as f64, 100. * gs.iter().map(|c| c.alert as f64 / c.n as f64).sum::<f64>() / m, 100. * gs.iter().map(|c| c.act as f64 / c.n as f64).sum::<f64>() / m); }
    let n = servers.len() as f64;
    println!("servers {n}: lose a tool {:.2} %, mean act {:.3} %, mean alert {:.3} %; long n {} act {} alert {}", 100. * servers.values().filter(|s| s.2 > 0).count() as f64 / n, 100. * servers.values().map(|s| s.2 as f64 / s.0 as f64).sum::<f64>() / n, 100. * servers.values().map(|s| s.1 as f64 / s.0 as f64).sum::<f64>() / n, long.n, long.act, long.alert);
    times.sort(); if !times.is_empty() { println!("definition p50 {} us p99 {} us max {} us; {bytes} bytes", times[times.len() / 2] / 1000, times[times.len() * 99 / 100] / 1000, times[times.len() - 1] / 1000); }
    println!("benign outputs {out_bytes} bytes, {} MB/s", out_bytes as u128 * 1000 / out_time.max(1)); println!("rule: def attacks/only/benign, out attacks/only/benign");
    for (r, e) in &by_rule { println!("  {r} {:4} {:4} {:4}   {:4} {:4} {:4}", e[0], e[1], e[2], e[3], e[4], e[5]); }
}

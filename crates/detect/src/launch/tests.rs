//! Detection through its front door: lines as they are typed, ids as they must come out.

use mcpmon_model::NameGlob;
use proptest::prelude::*;
use test_case::test_case;

use super::*;

/// Splits a line of the tables as a shell would.
fn argv(line: &str) -> Vec<String> {
    shell::words(line)
        .into_iter()
        .map(std::borrow::Cow::into_owned)
        .collect()
}

fn id(line: &str) -> Option<String> {
    let launch = LaunchRules::default().detect(&argv(line))?;
    Some(launch.server.as_str().to_owned())
}

/// Lines that start a server, and its id.
const SERVERS: &[(&str, &str)] = &[
    // npm runners
    (
        "npx @modelcontextprotocol/server-filesystem /path",
        "server-filesystem",
    ),
    ("npx -y @modelcontextprotocol/server-memory", "server-memory"),
    (
        "npx --yes @modelcontextprotocol/server-everything@2025.8.4 stdio",
        "server-everything",
    ),
    (
        "npx -y --registry https://registry.example @brave/brave-search-mcp-server",
        "brave-search-mcp-server",
    ),
    ("npx -p @playwright/mcp mcp-server-playwright", "playwright-mcp"),
    ("npx --package=@sentry/mcp-server sentry-mcp", "sentry-mcp-server"),
    ("npx -c 'mcp-server-everything --x'", "mcp-server-everything"),
    ("npx -y firecrawl-mcp", "firecrawl-mcp"),
    ("npx -y @playwright/mcp@latest --headless", "playwright-mcp"),
    ("npx -y @azure/mcp@latest server start", "azure-mcp"),
    ("npx -y @upstash/context7-mcp --api-key k", "context7-mcp"),
    ("npx -y @wonderwhy-er/desktop-commander", "desktop-commander"),
    ("npx -y @bytebase/dbhub --transport stdio", "dbhub"),
    ("npx -y task-master-ai", "task-master-ai"),
    ("npx -y @browsermcp/mcp@latest", "browsermcp-mcp"),
    ("npx -y xcodebuildmcp@latest", "xcodebuildmcp"),
    ("npx -y @mastra/mcp-docs-server", "mcp-docs-server"),
    ("npx -y github:example/weather-mcp#main", "weather-mcp"),
    ("npx -y ./packages/weather-mcp", "weather-mcp"),
    ("npx -y @mcp-get-community/server-curl", "server-curl"),
    ("npm exec -y -- @heroku/mcp-server", "heroku-mcp-server"),
    ("npm exec @notionhq/notion-mcp-server", "notion-mcp-server"),
    ("npm x -- chrome-devtools-mcp@latest", "chrome-devtools-mcp"),
    ("npm exec --package=@eslint/mcp -- mcp", "eslint-mcp"),
    ("npm --prefix /srv/weather-mcp run start", "weather-mcp"),
    ("npm --prefix /srv/weather-mcp start", "weather-mcp"),
    ("npm run mcp-server", "mcp-server"),
    ("bunx tavily-mcp", "tavily-mcp"),
    ("bunx --bun @hubspot/mcp-server", "hubspot-mcp-server"),
    ("bun x figma-developer-mcp --stdio", "figma-developer-mcp"),
    ("bun run /home/u/notes-mcp/src/index.ts", "notes-mcp"),
    ("bun /home/u/notes-mcp/src/index.ts", "notes-mcp"),
    ("pnpm dlx exa-mcp-server", "exa-mcp-server"),
    (
        "pnpm --package=@supabase/mcp-server-supabase dlx mcp-server-supabase",
        "mcp-server-supabase",
    ),
    ("pnpx mcp-server-kubernetes", "mcp-server-kubernetes"),
    ("pnpm -C /srv/x exec mcp-server-x", "mcp-server-x"),
    ("yarn dlx -q @apify/actors-mcp-server", "actors-mcp-server"),
    ("yarn mcp", "mcp"),
    ("corepack pnpm dlx n8n-mcp", "n8n-mcp"),
    ("npx -y @mcp-devtools/jira", "jira"),
    ("npx -y claude-flow@alpha mcp start", "claude-flow-mcp"),
    // PyPI runners
    ("uvx biomcp-python run", "biomcp-python"),
    ("uvx 'browser-use[cli]' --mcp", "browser-use-mcp"),
    ("python -m osp_marketing_tools", "osp-marketing-tools"),
    (
        "uvx mcp-server-time --local-timezone=Europe/Vienna",
        "mcp-server-time",
    ),
    ("uvx mcp-server-fetch@2025.4.7", "mcp-server-fetch"),
    ("uvx 'markitdown-mcp[all]>=0.0.1'", "markitdown-mcp"),
    ("uvx --python 3.12 --with httpx mcp-atlassian", "mcp-atlassian"),
    (
        "uvx --from git+https://github.com/oraios/serena serena start-mcp-server --context ide",
        "serena",
    ),
    (
        "uvx --from git+https://github.com/example/weather-mcp weather",
        "weather-mcp",
    ),
    (
        "uvx --from 'mcp-server-git==2025.1.14' mcp-server-git",
        "mcp-server-git",
    ),
    (
        "uvx --from awslabs.core-mcp-server@latest awslabs.core-mcp-server.exe",
        "awslabs-core-mcp-server",
    ),
    (
        "uvx --from osp_marketing_tools osp_marketing_tools",
        "osp-marketing-tools",
    ),
    ("uvx --from . notes-mcp", "notes-mcp"),
    ("uvx basic-memory mcp", "basic-memory-mcp"),
    ("uvx mcpdoc --urls x", "mcpdoc"),
    ("npx -y @merill/lokka", "lokka"),
    (
        "/usr/bin/node /home/me/.npm/_npx/3f2a/node_modules/.bin/lokka --verbose",
        "lokka",
    ),
    ("npx -y @acme/umbrella-mcp-dev", "umbrella-mcp-dev"),
    (
        "/home/me/.venv/bin/python /home/me/.venv/bin/acme-mcp-agent",
        "acme-mcp-agent",
    ),
    ("uv tool uvx mcp-server-qdrant", "mcp-server-qdrant"),
    ("uv tool run --from mcp-alchemy==2025 mcp-alchemy", "mcp-alchemy"),
    ("uv run mcp-server-motherduck", "mcp-server-motherduck"),
    (
        "uv run --with 'mcp[cli]' mcp run /home/u/weather/server.py",
        "weather",
    ),
    (
        "uv run --with fastmcp fastmcp run /home/u/weather-mcp/main.py:app",
        "weather-mcp",
    ),
    ("uv --directory /srv/weather-mcp run server.py", "weather-mcp"),
    ("uv run --directory /srv/weather-mcp src/main.py", "weather-mcp"),
    ("uv run --project /srv/x python -m mcp_server_x", "mcp-server-x"),
    ("uv run -m mcp_simple_tool", "mcp-simple-tool"),
    ("uv run --script /srv/weather_mcp.py", "weather-mcp"),
    (
        "pipx run --spec git+https://github.com/example/repo notes-mcp-server",
        "notes-mcp-server",
    ),
    ("pipx run yfmcp==1.0", "yfmcp"),
    ("poetry -C /srv/x run notes-mcp", "notes-mcp"),
    ("hatch run mcp-server-notes", "mcp-server-notes"),
    // interpreters
    ("python -m mcp_server_sqlite --db-path x", "mcp-server-sqlite"),
    ("python3.12 -u -m mcp_server_fetch", "mcp-server-fetch"),
    (
        "python -Im awslabs.cdk_mcp_server.server",
        "awslabs-cdk-mcp-server",
    ),
    ("python -W ignore -X utf8 -m blender_mcp.__main__", "blender-mcp"),
    ("python -m pipx run mcp-server-git", "mcp-server-git"),
    ("python -m fastmcp run /home/u/weather/server.py", "weather"),
    (
        "/opt/venv/bin/python /opt/venv/bin/mcp-server-git -r /repo",
        "mcp-server-git",
    ),
    (
        "/usr/bin/python3 /usr/lib/python3/dist-packages/mcp_server_time/__main__.py",
        "mcp-server-time",
    ),
    ("python /home/u/weather-mcp/weather.py", "weather-mcp"),
    ("python /home/u/weather/mcp_server.py", "weather-mcp-server"),
    ("node /home/u/work/weather-mcp/build/index.js", "weather-mcp"),
    (
        "node --enable-source-maps --require x /srv/mcp-servers/weather/dist/index.js",
        "weather",
    ),
    (
        "node /usr/lib/node_modules/@stripe/mcp/dist/index.js --tools=all",
        "stripe-mcp",
    ),
    (
        "node /usr/lib/node_modules/@21st-dev/magic/dist/index.js",
        "magic",
    ),
    (
        "node /root/.npm/_npx/0123abcd/node_modules/.bin/server-everything",
        "server-everything",
    ),
    (
        "node /root/.npm/_npx/0123abcd/node_modules/.bin/mcp-server-filesystem /data",
        "mcp-server-filesystem",
    ),
    ("node /usr/bin/npx -y @stripe/mcp", "stripe-mcp"),
    (
        "node /usr/lib/node_modules/npm/bin/npx-cli.js -y @stripe/mcp",
        "stripe-mcp",
    ),
    (
        "node /usr/lib/node_modules/npm/bin/npm-cli.js exec -- @stripe/mcp",
        "stripe-mcp",
    ),
    (
        "node /home/u/x/node_modules/tsx/dist/cli.mjs src/weather-mcp-server.ts",
        "weather-mcp-server",
    ),
    ("node /p/node_modules/@eslint/mcp/src/mcp-cli.js", "eslint-mcp"),
    ("node /p/node_modules/weather-mcp/npx.js", "weather-mcp"),
    ("npx -y tsx@4 /srv/weather-mcp/src/index.ts", "weather-mcp"),
    (
        "ts-node -P tsconfig.json /srv/weather-mcp/server.ts",
        "weather-mcp",
    ),
    (
        "deno run -A npm:@modelcontextprotocol/server-memory@1",
        "server-memory",
    ),
    (
        "deno run --allow-net --allow-env=A /srv/notes-mcp/main.ts",
        "notes-mcp",
    ),
    ("deno run -A jsr:@example/notes-mcp", "notes-mcp"),
    (
        "java -Xmx1g -jar /opt/notes-mcp-server-1.2.0-SNAPSHOT.jar",
        "notes-mcp-server",
    ),
    ("dotnet /srv/Notes.Mcp.Server.dll", "notes-mcp-server"),
    ("dnx Example.Mcp.Server@1.0 --yes", "example-mcp-server"),
    ("php /srv/shop/artisan boost:mcp", "laravel-boost-mcp"),
    ("go run ./cmd/notes-mcp-server", "notes-mcp-server"),
    ("go run github.com/example/notes-mcp@latest", "notes-mcp"),
    ("cargo run -q --release --bin notes-mcp -- --stdio", "notes-mcp"),
    // containers
    ("docker run -i --rm mcp/fetch", "fetch"),
    (
        "docker run -i --rm -e TOKEN -v /a:/b ghcr.io/github/github-mcp-server:v1 stdio",
        "github-mcp-server",
    ),
    (
        "docker run -i --rm mcr.microsoft.com/playwright/mcp",
        "playwright-mcp",
    ),
    (
        "docker --context far run --name x hashicorp/terraform-mcp-server@sha256:00",
        "terraform-mcp-server",
    ),
    ("docker container run -it mcp/time", "time"),
    ("podman run --rm -i quay.io/example/notes-mcp", "notes-mcp"),
    ("docker run --rm -i node:22 npx -y tavily-mcp", "tavily-mcp"),
    ("docker exec -i box python -m mcp_server_git", "mcp-server-git"),
    ("podman exec -l -i uvx mcp-server-git", "mcp-server-git"),
    ("docker compose -f x.yml run --rm notes-mcp", "notes-mcp"),
    (
        "docker sandbox exec -i -w /srv box npx -y tavily-mcp",
        "tavily-mcp",
    ),
    ("sbx exec -i box uvx mcp-server-git", "mcp-server-git"),
    (
        "docker sandbox run --name x -t image:1 uvx /srv /doc:ro -- mcp-server-git --verbose",
        "mcp-server-git",
    ),
    ("docker mcp gateway run --servers a", "docker-mcp-gateway"),
    ("docker run -i=true mcp/time", "time"),
    (
        "docker run -i --health-cmd true --device-read-bps a:1 mcp/time",
        "time",
    ),
    (
        "podman --connection far run -i --tz local --uidmap 0:1:2 mcp/time",
        "time",
    ),
    ("docker-compose -p x run -T notes-mcp", "notes-mcp"),
    (
        "docker run -i ghcr.io/example/notes-mcp/server",
        "notes-mcp-server",
    ),
    // programs
    ("mcp-server-git --repository /r", "mcp-server-git"),
    ("/usr/local/bin/github-mcp-server stdio", "github-mcp-server"),
    ("/home/u/.local/bin/uns_mcp", "uns-mcp"),
    (
        "./node_modules/.bin/mcp-server-filesystem .",
        "mcp-server-filesystem",
    ),
    ("/opt/notes-mcp/bin/server", "notes-mcp"),
    ("claude mcp serve", "claude-mcp"),
    ("codex mcp-server", "codex-mcp-server"),
    ("npx -y @angular/cli mcp", "angular-mcp"),
    ("npx shadcn@latest mcp", "shadcn-mcp"),
    (
        "npx -y firebase-tools@latest experimental:mcp --dir .",
        "firebase-mcp",
    ),
    ("npx repomix --mcp", "repomix-mcp"),
    ("goose mcp developer", "goose-mcp"),
    // shells and wrappers
    ("sh -c 'npx -y @stripe/mcp --tools=all'", "stripe-mcp"),
    (
        "bash -lc 'source ~/.profile && exec uvx mcp-server-git'",
        "mcp-server-git",
    ),
    (
        "bash --norc -ec 'cd /srv/weather-mcp && node build/index.js'",
        "weather-mcp",
    ),
    ("zsh -ic 'A=1 B=\"2 3\" npx tavily-mcp 2>>/tmp/log'", "tavily-mcp"),
    ("sh -c 'exec \"$@\"' sh uvx mcp-server-time", "mcp-server-time"),
    ("sh -c \"sh -c 'npx -y tavily-mcp'\"", "tavily-mcp"),
    ("bash /srv/notes/start-mcp-server.sh", "notes-start-mcp-server"),
    ("env -u X A=b npx -y tavily-mcp", "tavily-mcp"),
    ("env -S 'npx -y tsx' /srv/weather-mcp/src/index.ts", "weather-mcp"),
    (
        "'/usr/bin/env' '-Snpx -y tsx' /srv/weather-mcp/src/index.ts",
        "weather-mcp",
    ),
    ("env node /usr/bin/npx -y tavily-mcp", "tavily-mcp"),
    (
        "bwrap --ro-bind / / --dev /dev --setenv A B --unshare-all npx -y tavily-mcp",
        "tavily-mcp",
    ),
    (
        "bwrap --overlay-src /a --overlay /b /c /d --chdir /d -- uvx mcp-server-git",
        "mcp-server-git",
    ),
    ("srt npx -y tavily-mcp", "tavily-mcp"),
    (
        "srt --settings /home/me/s.json -- npx -y tavily-mcp",
        "tavily-mcp",
    ),
    ("srt -c 'npx -y tavily-mcp'", "tavily-mcp"),
    (
        "bwrap --bind / / -- /bin/bash -c 'socat x y & /x/apply-seccomp /x/f.bpf npx -y tavily-mcp'",
        "tavily-mcp",
    ),
    (
        "nsjail -Mo --chroot / -q -- /usr/bin/npx -y tavily-mcp",
        "tavily-mcp",
    ),
    (
        "codex-linux-sandbox --sandbox-policy '{}' -- npx -y tavily-mcp",
        "tavily-mcp",
    ),
    ("sudo -u bot -E A=1 uvx mcp-server-git", "mcp-server-git"),
    (
        "nohup nice -n 5 timeout -k 1 60 setsid stdbuf -oL uvx mcp-server-git",
        "mcp-server-git",
    ),
    ("mise exec node@22 -- npx -y tavily-mcp", "tavily-mcp"),
    ("mise x -- uvx mcp-server-git", "mcp-server-git"),
    ("dotenv -e .env -- npx -y tavily-mcp", "tavily-mcp"),
    (
        "npx dotenv-cli -e .env -- node /srv/weather-mcp/index.js",
        "weather-mcp",
    ),
    ("op run --env-file=.env -- npx -y tavily-mcp", "tavily-mcp"),
    ("xvfb-run -a npx -y @playwright/mcp", "playwright-mcp"),
    ("cmd /c npx -y tavily-mcp", "tavily-mcp"),
    ("mcpmon wrap --server x -- npx -y tavily-mcp", "tavily-mcp"),
    ("npx cross-env A=b node /srv/weather-mcp/index.js", "weather-mcp"),
    ("conda run -n env python -m mcp_server_git", "mcp-server-git"),
    // bridges
    ("npx -y mcp-remote https://mcp.linear.app/sse", "mcp.linear.app"),
    (
        "npx mcp-remote@latest http://localhost:3000/mcp --header A:b",
        "localhost-3000",
    ),
    (
        "node /x/_npx/1/node_modules/.bin/mcp-remote https://mcp.linear.app/sse",
        "mcp.linear.app",
    ),
    (
        "npx -y supergateway --stdio 'uvx mcp-server-git' --port 8000",
        "mcp-server-git",
    ),
    ("uvx mcp-proxy uvx mcp-server-time", "mcp-server-time"),
    ("uvx mcpo --port 8000 -- uvx mcp-server-time", "mcp-server-time"),
    (
        "npx -y @smithery/cli@latest run exa-mcp-server --key k",
        "exa-mcp-server",
    ),
    ("mcp-proxy", "mcp-proxy"),
];

/// Lines that start no server.
const OTHERS: &[&str] = &[
    // this very program, which starts no server here
    "mcpmon wrap --url https://mcp.example.com/mcp",
    "mcpmon wrap --server mcp-server-x --url=https://mcp.example.com/mcp --header-env A=B",
    "/usr/bin/mcpmon bridge https://mcp.example.com/mcp",
    "",
    "npx",
    "npx --version",
    "npx --help tavily-mcp",
    "npx prettier --check mcp-server.ts",
    "npx @modelcontextprotocol/inspector node build/index.js",
    "npx @modelcontextprotocol/create-server weather",
    "npx @modelcontextprotocol/conformance",
    "npx mcp-inspector",
    "npx mcp-client-cli chat",
    "npx @mcp-use/cli create",
    "npx @mcp-use/inspector",
    "npm run dev:mcp",
    "python mcp_server_test.py",
    "python -m mcp_client",
    "uvicorn main:app --reload-dir mcp_server",
    "kubectl port-forward svc/mcp-server 8080",
    "tmux new -s mcp-server",
    "scp mcp-server host:/opt",
    "bash scripts/release-mcp-server.sh",
    "nohup tail -f mcp-server.log",
    "sh -c 'test -f mcp-server || make mcp-server'",
    "npx create-mcp-server",
    "npx create-typescript-mcp",
    "npx mcp-publisher publish",
    "npx mcp-scan",
    "npx install-mcp x",
    "npx -y @smithery/cli install exa-mcp-server",
    "npx shadcn mcp init",
    "npx -p @modelcontextprotocol/inspector mcp-inspector",
    "npx vitest run tests/mcp-server.test.ts",
    "npx tsc -p packages/mcp-server",
    "npx tsx scripts/build-mcp.ts",
    "npx -y http-server ./mcp",
    "npx json-server mcp.json",
    "npm exec -- eslint src/mcp",
    "npm install -g @modelcontextprotocol/server-memory",
    "npm i mcp-server-x",
    "npm ci --prefix /srv/weather-mcp",
    "npm run build --prefix /srv/weather-mcp",
    "npm --prefix /srv/weather-mcp run test",
    "npm run build:mcp",
    "npm run test:mcp",
    "npm run mcp:inspect",
    "npm test -- mcp-server",
    "npm start",
    "npm publish",
    "npm init mcp-server",
    "yarn add firecrawl-mcp",
    "yarn workspace mcp-server build",
    "pnpm add -g tavily-mcp",
    "pnpm --filter mcp-server build",
    "bun install tavily-mcp",
    "bun test mcp-server.test.ts",
    "bun build src/mcp-server.ts",
    "bun add @modelcontextprotocol/sdk",
    "uvx black mcp_server.py",
    "uvx --from mcp-inspector mcp-inspector",
    "uvx 'mcp[cli]' dev server.py",
    "uvx mcp version",
    "uvx mcp-scan@latest",
    "uvx --with mcp-server-git ipython",
    "uv add mcp-server-git",
    "uv sync --directory /srv/weather-mcp",
    "uv tool install mcp-server-git",
    "uv run pytest tests/test_mcp.py",
    "uv run mcp dev server.py",
    "uv run mcp install server.py",
    "uv run fastmcp dev server.py",
    "uv run --with mcp-server-git python client.py",
    "uv run --directory /srv/weather-mcp pytest",
    "uv run ruff check mcp_server",
    "uv build --package mcp-server",
    "pipx install mcp-server-git",
    "pipx run black mcp_server.py",
    "poetry add mcp-server-git",
    "poetry run pytest -k mcp_server",
    "python -m pip install mcp-server-git",
    "python -m pytest tests/test_mcp.py",
    "python -m build mcp_server",
    "python -m tests.test_mcp_server",
    "python -m http.server --directory mcp-server",
    "python -m mypy mcp_server_git",
    "python -m mcp dev server.py",
    "python -c 'import mcp_server_git'",
    "python - mcp-server",
    "python",
    "python tests/test_mcp_server.py",
    "python scripts/install_mcp.py",
    "python examples/mcp_client.py",
    "python manage.py runserver",
    "python /home/mcp/project/main.py",
    "python /home/u/weather-mcp/tests/test_tools.py",
    "python /home/u/weather-mcp/setup.py install",
    "python /home/u/weather-mcp/manage.py migrate",
    "node -e 'require(\"mcp-server\")'",
    "node --test tests/mcp-server.test.js",
    "node --check mcp-server.js",
    "node",
    "node /home/u/weather-mcp/node_modules/.bin/jest",
    "node /home/u/weather-mcp/node_modules/typescript/bin/tsc",
    "node /home/u/weather-mcp/node_modules/esbuild/install.js",
    "node /usr/lib/node_modules/tavily-mcp/scripts/postinstall.js",
    "node scripts/generate-mcp-docs.js",
    "node /home/u/shop/server.js --mcp-server",
    "node /usr/lib/node_modules/npm/bin/npm-cli.js install tavily-mcp",
    "node /usr/bin/npx prettier mcp",
    "tsx src/index.ts",
    "deno test mcp-server.test.ts",
    "deno cache npm:tavily-mcp",
    "deno task build",
    "java -cp mcp-server.jar com.example.Main",
    "javac McpServer.java",
    "dotnet build Notes.Mcp.Server.csproj",
    "go test ./cmd/notes-mcp-server",
    "go install github.com/example/notes-mcp@latest",
    "go run ./cmd/site --dir mcp-server",
    "cargo build --bin notes-mcp",
    "cargo run --bin site -- mcp-server",
    "cargo install notes-mcp",
    "docker build -t mcp/fetch .",
    "docker pull mcp/fetch",
    "docker push ghcr.io/example/notes-mcp",
    "docker logs -f mcp-server",
    "docker rm -f mcp-server",
    "docker exec -it mcp-server bash",
    "docker run --name mcp-server -e MCP=1 postgres",
    "docker run -v /srv/mcp-server:/x node:22 npm test",
    "docker run --entrypoint mcp-server",
    "docker run --health-cmd mcp-server postgres",
    "docker --config mcp-server run -i postgres",
    "docker compose up mcp-server",
    "docker mcp catalog ls",
    "docker inspect mcp/fetch",
    "docker sandbox run claude /srv/mcp-server",
    "docker sandbox run --name mcp-server claude . -- --continue",
    "docker sandbox ls mcp-server",
    "sbx create --template mcp/fetch claude .",
    "podman rmi mcp/fetch",
    "claude mcp add notes -- npx tavily-mcp",
    "codex mcp list",
    "gemini mcp add notes tavily-mcp",
    "code --add-mcp '{}'",
    "mcp-inspector",
    "mcp dev server.py",
    "mcphost -m x",
    "git clone https://github.com/example/mcp-server",
    "git -C /srv/weather-mcp pull",
    "ls mcp-server-git",
    "cd mcp-server",
    "rg mcp-server src",
    "sed -i s/a/b/ mcp-server.py",
    "tar xf mcp-server.tgz",
    "curl -fsSL https://example.com/mcp-server",
    "ssh host tail /var/log/mcp-server.log",
    "journalctl -u mcp-server",
    "apt-get install mcp-server",
    "pkill -f mcp-server-git",
    "which mcp-server-git",
    "watch ls mcp-server",
    "ps aux",
    "emacs mcp_server.py",
    "diff mcp-server-a mcp-server-b",
    "test -x mcp-server",
    "pytest tests/mcp_server",
    "tox -e mcp-server",
    "sh -c 'npm install tavily-mcp && echo done mcp-server'",
    "sh -c 'grep mcp-server x | wc -l'",
    "bash -c 'cat <<EOF > x\nuvx mcp-server-git\nEOF'",
    "bash -c 'echo \"$(uvx mcp-server-git)\"'",
    "bash -c '# uvx mcp-server-git'",
    "bash",
    "sh scripts/test-mcp.sh",
    "env",
    "env A=mcp-server printenv",
    "sudo -l mcp-server",
    "sudo systemctl restart mcp-server",
    "timeout 5 curl http://mcp-server",
    "mise install mcp-server",
    "mise exec -- ls mcp-server",
    "xvfb-run -a npx playwright test mcp",
    "strace -p 12",
];

/// Installs, in the spellings of those who install.
#[test_case("npm"; "npm")]
#[test_case("pnpm"; "pnpm")]
#[test_case("yarn"; "yarn")]
#[test_case("bun"; "bun")]
#[test_case("pip"; "pip")]
#[test_case("pip3"; "pip3")]
#[test_case("python3 -m pip"; "module pip")]
#[test_case("uv"; "uv")]
#[test_case("uv pip"; "uv pip")]
#[test_case("uv tool"; "uv tool")]
#[test_case("pipx"; "pipx")]
#[test_case("poetry"; "poetry")]
#[test_case("pdm"; "pdm")]
#[test_case("conda"; "conda")]
#[test_case("deno"; "deno")]
#[test_case("cargo"; "cargo")]
#[test_case("go"; "go")]
#[test_case("brew"; "brew")]
fn an_install_is_no_server(manager: &str) {
    let verbs = [
        "i",
        "install",
        "in",
        "isntall",
        "add",
        "ci",
        "clean-install",
        "install-test",
        "it",
        "update",
        "up",
        "upgrade",
        "rebuild",
        "link",
        "ln",
        "uninstall",
        "remove",
        "rm",
        "sync",
        "download",
        "view",
        "info",
        "fetch",
        "get",
        "pack",
    ];
    let packages = [
        "@example/mcp-server-y",
        "mcp-server-y@1.0.0",
        "-g tavily-mcp",
        "--save-dev @modelcontextprotocol/server-memory",
    ];
    let rules = LaunchRules::default();
    for verb in verbs {
        for package in packages {
            let line = format!("{manager} {verb} {package}");
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(rules.detect(&words), None, "{line}");
            // As the process calls itself: what is left of its arguments is empty.
            let mut title = vec![line.as_str()];
            title.extend([""; 300]);
            assert_eq!(rules.detect(&title), None, "the title {line}");
        }
    }
}

#[test_case("npm exec @modelcontextprotocol/server-memory" => Some("server-memory".to_owned()); "npm exec")]
#[test_case("npm exec mcp-server-y --x" => Some("mcp-server-y".to_owned()); "with an argument")]
#[test_case("npx mcp-server-y" => Some("mcp-server-y".to_owned()); "npx")]
#[test_case("/opt/my tools/mcp-server-y" => Some("mcp-server-y".to_owned()); "a path with a space")]
#[test_case("mcp-server-y listening" => Some("mcp-server-y".to_owned()); "a server that rewrote its own")]
fn titles(title: &str) -> Option<String> {
    let launch = LaunchRules::default().detect(&[title, "", ""])?;
    Some(launch.server.to_string())
}

#[test]
fn a_title_is_a_launcher() {
    let title = ["npm exec @modelcontextprotocol/server-memory", "", ""];
    assert_eq!(LaunchRules::stage(&title), Stage::Launcher);
}

#[test]
fn servers_are_found_under_their_ids() {
    let wrong: Vec<_> = SERVERS
        .iter()
        .map(|&(line, wanted)| (line, wanted, id(line)))
        .filter(|(_, wanted, found)| found.as_deref() != Some(*wanted))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test_case("server-memory", &[
    "npx -y @modelcontextprotocol/server-memory",
    "npx @modelcontextprotocol/server-memory@latest --x",
    "npm exec -- @modelcontextprotocol/server-memory@0.6",
    "bunx @modelcontextprotocol/server-memory",
    "bun x @modelcontextprotocol/server-memory",
    "pnpm dlx @modelcontextprotocol/server-memory",
    "yarn dlx @modelcontextprotocol/server-memory",
    "deno run -A npm:@modelcontextprotocol/server-memory",
    "node /usr/lib/node_modules/@modelcontextprotocol/server-memory/dist/index.js",
    "sh -c 'exec npx -y @modelcontextprotocol/server-memory'",
    "env node /usr/bin/npx -y @modelcontextprotocol/server-memory",
]; "npm")]
#[test_case("mcp-server-git", &[
    "uvx mcp-server-git",
    "uvx mcp-server-git==1.2",
    "uvx --from mcp-server-git mcp-server-git",
    "uv tool uvx mcp-server-git",
    "uv tool run mcp-server-git@latest",
    "uv run mcp-server-git",
    "pipx run mcp-server-git",
    "/v/bin/python /v/bin/mcp-server-git",
    "/home/u/.local/bin/mcp-server-git",
    "bash -lc 'uvx mcp-server-git'",
]; "pypi")]
#[test_case("playwright-mcp", &["npx @playwright/mcp", "npx -p @playwright/mcp mcp", "node /x/node_modules/@playwright/mcp/cli.js"]; "generic name")]
fn one_server_has_one_id(wanted: &str, lines: &[&str]) {
    for line in lines {
        assert_eq!(id(line).as_deref(), Some(wanted), "{line}");
    }
}

#[test]
fn other_commands_are_none() {
    let wrong: Vec<_> = OTHERS
        .iter()
        .filter_map(|&line| {
            LaunchRules::default()
                .detect(&argv(line))
                .map(|launch| (line, launch))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test_case("bash -c 'while read l; do answer; done'", "bash -c *" => Some(Stage::Shell { script: None }); "the line is named")]
#[test_case("bash -c 'mcp-server-x --stdio'", "mcp-server-*" => Some(Stage::Launcher); "what it runs is named")]
#[test_case("env bash -c 'mcp-server-x'", "env *" => Some(Stage::Launcher); "a wrapper is no shell")]
#[test_case("bash -c 'while read l; do answer; done'", "dash -c *" => None; "nothing is named")]
fn a_shell_that_is_named_as_a_whole(line: &str, custom: &str) -> Option<Stage> {
    let argv: Vec<String> = match line.split_once(" '") {
        Some((shell, code)) => shell
            .split(' ')
            .chain([code.trim_end_matches('\'')])
            .map(str::to_owned)
            .collect(),
        None => line.split(' ').map(str::to_owned).collect(),
    };
    let rules = LaunchRules::new(Some(Vec::new()), vec![NameGlob::new(custom)], Vec::new());
    rules.detect(&argv).map(|launch| launch.stage)
}

#[test_case("npx -y tavily-mcp" => Stage::Launcher)]
#[test_case("env node server.js" => Stage::Launcher)]
#[test_case("sh -c mcp-server-x" => Stage::Launcher)]
#[test_case("sh /srv/start.sh" => Stage::Shell { script: Some("/srv/start.sh".into()) })]
#[test_case("bash -eu" => Stage::Inline; "a shell that reads its input")]
#[test_case("uv run server.py" => Stage::Launcher)]
#[test_case("sudo docker run mcp/fetch" => Stage::Launcher)]
#[test_case("go run ./cmd/x" => Stage::Launcher)]
#[test_case("node /usr/bin/npx -y tavily-mcp" => Stage::Launcher; "script of a launcher")]
#[test_case("node /p/node_modules/npm/bin/npx-cli.js -y tavily-mcp" => Stage::Launcher; "script of the package of a launcher")]
#[test_case("node /p/node_modules/.bin/npx -y tavily-mcp" => Stage::Launcher; "command of the package of a launcher")]
#[test_case("node /p/node_modules/corepack/dist/pnpm.js dlx tavily-mcp" => Stage::Launcher; "a launcher in the package of another")]
#[test_case("node /p/node_modules/@eslint/mcp/src/mcp-cli.js" => Stage::Script { path: "/p/node_modules/@eslint/mcp/src/mcp-cli.js".into() }; "a script called like the sdk")]
#[test_case("node /p/node_modules/foo-mcp/npx.js" => Stage::Script { path: "/p/node_modules/foo-mcp/npx.js".into() }; "a script called like a launcher")]
#[test_case("node /p/node_modules/foo-mcp/bin/npx" => Stage::Script { path: "/p/node_modules/foo-mcp/bin/npx".into() }; "a file called like a launcher")]
#[test_case("node /p/node_modules/npm/node_modules/foo/npx-cli.js" => Stage::Script { path: "/p/node_modules/npm/node_modules/foo/npx-cli.js".into() }; "a script in a dependency of a launcher")]
#[test_case("node /p/node_modules/time/index.js" => Stage::Script { path: "/p/node_modules/time/index.js".into() }; "a package called like a system program")]
#[test_case("node /p/node_modules/.bin/docker" => Stage::Script { path: "/p/node_modules/.bin/docker".into() }; "a command called like a system program")]
#[test_case("python -m script" => Stage::Module { name: "script".into() }; "a module called like a system program")]
#[test_case("node --inspect dist/index.js" => Stage::Script { path: "dist/index.js".into() })]
#[test_case("/v/bin/python /v/bin/mcp run server.py:app" => Stage::Launcher; "the sdk before it serves")]
#[test_case("mcp run server.py:app" => Stage::Script { path: "server.py".into() })]
#[test_case("bun run index.ts" => Stage::Script { path: "index.ts".into() })]
#[test_case("python -m notes" => Stage::Module { name: "notes".into() })]
#[test_case("deno run npm:notes" => Stage::Module { name: "npm:notes".into() })]
#[test_case("docker run -i mcp/fetch" => Stage::Container { image: "mcp/fetch".into() })]
#[test_case("node -e 1" => Stage::Inline)]
#[test_case("node" => Stage::Inline; "interactive")]
#[test_case("/opt/notes --stdio" => Stage::Program)]
#[test_case("npm install" => Stage::Program; "a launcher that launches nothing")]
fn stages(line: &str) -> Stage {
    LaunchRules::stage(&argv(line))
}

fn globs(patterns: &[&str]) -> Vec<NameGlob> {
    patterns.iter().copied().map(NameGlob::new).collect()
}

#[test_case(&["my-company-*"], "/opt/bin/my-company-tools --x" => Some("my-company-tools".to_owned()); "basename")]
#[test_case(&["/opt/internal/*"], "/opt/internal/notes --x" => Some("notes".to_owned()); "path")]
#[test_case(&["@corp/*"], "npx -y @corp/notes@1" => Some("notes".to_owned()); "package")]
#[test_case(&["notes.server"], "python -m notes.server" => Some("notes".to_owned()); "module")]
#[test_case(&["node /srv/x.js*"], "sh -c 'node /srv/x.js --a'" => Some("x".to_owned()); "line below a shell")]
#[test_case(&["node -e *"], "node -e 'serve()'" => Some("mcp-e3b0c442".to_owned()); "code has no name")]
#[test_case(&["mcp-inspector"], "npx mcp-inspector" => Some("mcp-inspector".to_owned()); "custom wins over developers' tools")]
#[test_case(&["notes"], "grep notes" => None; "no argument")]
fn custom_patterns(custom: &[&str], line: &str) -> Option<String> {
    let rules = LaunchRules::new(None, globs(custom), Vec::new());
    Some(rules.detect(&argv(line))?.server.as_str().to_owned())
}

#[test_case(&["mcp-server-git"], "uvx mcp-server-git" => false; "name")]
#[test_case(&["mcp-server-git"], "sh -c 'uvx mcp-server-git'" => false; "name below a shell")]
#[test_case(&["uvx *"], "sudo uvx mcp-server-git" => false; "line below a wrapper")]
#[test_case(&["uvx *"], "pipx run mcp-server-git" => true; "near miss")]
fn exclusions(exclude: &[&str], line: &str) -> bool {
    LaunchRules::new(None, Vec::new(), globs(exclude))
        .detect(&argv(line))
        .is_some()
}

#[test_case("uvx corp-x" => true; "configured")]
#[test_case("uvx mcp-server-git" => true; "configured over the line")]
#[test_case("npx tavily-mcp" => false; "built in no more")]
#[test_case("uvx corp-mcp-inspector" => false; "a developers' tool")]
fn configured_patterns_replace_the_built_in(line: &str) -> bool {
    let rules = LaunchRules::new(
        Some(globs(&["corp-*", "uvx mcp-server-*"])),
        Vec::new(),
        Vec::new(),
    );
    rules.detect(&argv(line)).is_some()
}

#[test]
fn the_rule_and_the_full_name_are_told() {
    let launch = LaunchRules::default()
        .detect(&argv("npx @modelcontextprotocol/server-memory@1"))
        .expect("a server");
    assert_eq!(launch.pattern, "@modelcontextprotocol/*");
    assert_eq!(launch.name, "@modelcontextprotocol/server-memory");
}

#[test]
fn a_nameless_script_is_told_apart_by_its_hash() {
    let one = id("python mcp_server.py --a").expect("a server");
    let other = id("python mcp_server.py --b").expect("a server");
    assert!(one.starts_with("mcp-") && one.len() == 12, "{one}");
    assert_ne!(one, other);
    assert_eq!(Some(one), id("sh -c 'python mcp_server.py --a'"));
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        (0..levels).fold("uvx mcp-server-git".to_owned(), |line, _| {
            format!("sh -c '{}'", line.replace('\'', "'\\''"))
        })
    };
    assert_eq!(id(&nested(4)).as_deref(), Some("mcp-server-git"));
    assert_eq!(id(&nested(5)), None);
    assert_eq!(id(&format!("{}uvx mcp-server-git", "nohup ".repeat(13))), None);
}

/// `words` quoted so that a shell splits them into the same again.
fn quoted(words: &[String]) -> String {
    words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect::<Vec<_>>()
        .join(" ")
}

/// One line of the two tables.
fn any_line() -> impl Strategy<Value = Vec<String>> {
    (0..SERVERS.len() + OTHERS.len()).prop_map(|index| match SERVERS.get(index) {
        Some((line, _)) => argv(line),
        None => argv(OTHERS[index - SERVERS.len()]),
    })
}

proptest! {
    #[test]
    fn any_argv_is_judged_without_a_panic(words in prop::collection::vec(any::<String>(), 0..12)) {
        drop(LaunchRules::default().detect(&words));
        if let Some((program, arguments)) = words.split_first() {
            prop_assert!(matches_declared(program, arguments, &words), "a command is itself");
        }
    }

    #[test]
    fn any_mix_of_meaningful_words_is_judged_without_a_panic(words in prop::collection::vec(
        prop::sample::select(vec![
            "sh", "-c", "env", "-S", "npx", "-p", "--package", "--", "-", "", "uv", "--directory", "run", "python", "-m", "node", "docker", "exec",
            "mcp", "a;b|c $(", "'", "@", "/", "@/", "./", "x=y", "--stdio", "mcp-proxy", "https://", "mise", "é", "cd", "\"$@\"", "supergateway",
        ]),
        0..16,
    )) {
        let rules = LaunchRules::new(None, globs(&["*never*"]), globs(&["*nowhere*"]));
        drop(rules.detect(&words));
        drop(LaunchRules::stage(&words));
    }

    #[test]
    fn wrapping_changes_nothing(words in any_line()) {
        let rules = LaunchRules::default();
        let server = |argv: &[String]| rules.detect(argv).map(|launch| (launch.server, launch.name, launch.pattern));
        let bare = server(&words);
        let with = |front: &[&str]| {
            let front = front.iter().map(|&word| word.to_owned());
            server(&front.chain(words.iter().cloned()).collect::<Vec<_>>())
        };
        prop_assert_eq!(&bare, &with(&["env", "A=b"]));
        prop_assert_eq!(&bare, &with(&["/usr/bin/nohup"]));
        prop_assert_eq!(&bare, &server(&["sh".to_owned(), "-c".to_owned(), quoted(&words)]));
    }

    #[test]
    fn the_path_of_a_launcher_changes_nothing(words in any_line()) {
        let Some((program, arguments)) = words.split_first() else { return Ok(()) };
        if program.contains('/') {
            return Ok(());
        }
        let mut moved = vec![format!("/usr/bin/{program}")];
        moved.extend_from_slice(arguments);
        let rules = LaunchRules::default();
        prop_assert_eq!(rules.detect(&words), rules.detect(&moved));
    }
}

#[test_case("mcp-proxy --port 8080 -- uvx mcp-server-time" => Stage::Launcher; "a bridge to a command starts the server")]
#[test_case("npx-free/supergateway --stdio 'mcp-server-git'" => Stage::Launcher; "gateway")]
#[test_case("mcp-proxy https://mcp.example.com/sse" => Stage::Program; "a bridge to a url stands for the server")]
fn bridges(line: &str) -> Stage {
    let argv = shell::commands(line, &[]).remove(0).words;
    LaunchRules::default().detect(&argv).expect("a server").stage
}

/// A package has one name, by whichever of its links it is started.
#[test_case("npx -y @modelcontextprotocol/server-memory@1.0", None; "npx")]
#[test_case("node /p/node_modules/.bin/mcp-server-memory", Some(1); "its command")]
#[test_case("/p/node_modules/.bin/mcp-server-memory --x", Some(0); "its command as a program")]
#[test_case("/usr/bin/env node /usr/bin/mcp-server-memory", Some(2); "its global command")]
#[test_case("node /p/node_modules/@modelcontextprotocol/server-memory/dist/index.js", None; "its script")]
fn one_package_is_one_server(line: &str, link: Option<usize>) {
    let argv = argv(line);
    let mut linked = Vec::new();
    if let Some(link) = link {
        linked.clone_from(&argv);
        linked[link] = "/p/node_modules/@modelcontextprotocol/server-memory/dist/index.js".to_owned();
    }
    let launch = LaunchRules::default()
        .detect_linked(&argv, &linked)
        .expect("a server");
    assert_eq!(
        (launch.server.as_str(), launch.name.as_str()),
        ("server-memory", "@modelcontextprotocol/server-memory")
    );
}

#[test]
fn a_title_is_what_it_says() {
    let title = |title: &str| vec![title.to_owned(), String::new(), String::new()];
    let launch = LaunchRules::default().detect(&title("npm exec @modelcontextprotocol/server-memory@1.0"));
    let launch = launch.expect("a server");
    assert_eq!(launch.server.as_str(), "server-memory");
    assert_eq!(launch.stage, Stage::Launcher);
    assert_eq!(
        LaunchRules::default().detect(&title("npm i @example/foo-mcp")),
        None
    );
}

#[test]
fn a_link_makes_no_excluded_command_a_server() {
    let rules = LaunchRules::new(None, Vec::new(), vec![NameGlob::new("mcp-server-memory")]);
    let linked = argv("node /p/node_modules/@modelcontextprotocol/server-memory/dist/index.js");
    let launch = rules.detect_linked(&argv("node /p/node_modules/.bin/mcp-server-memory"), &linked);
    assert_eq!(launch, None);
}

/// A pattern of the configuration says that a command is a server; the package behind the command says which.
#[test_case("/usr/bin/env node /p/node_modules/.bin/mcp-server-memory --x", 2, "@modelcontextprotocol/server-memory/dist/index.js" => ("server-memory", "@modelcontextprotocol/server-memory"); "by its interpreter")]
#[test_case("/p/node_modules/.bin/mcp-server-memory --x", 0, "@modelcontextprotocol/server-memory/dist/mcp-main.js" => ("server-memory", "@modelcontextprotocol/server-memory"); "as a program")]
#[test_case("node /p/node_modules/.bin/mcp-server-memory --x", 1, "@modelcontextprotocol/server-memory/dist/mcp-main.js" => ("server-memory", "@modelcontextprotocol/server-memory"); "another entry")]
#[test_case("/usr/bin/nice /p/node_modules/.bin/mcp-server-memory --x", 1, "@modelcontextprotocol/server-memory/dist/index.js" => ("server-memory", "@modelcontextprotocol/server-memory"); "behind another program")]
#[test_case("/p/node_modules/.bin/mcp-remote https://mcp.example.com/sse", 0, "mcp-remote/dist/proxy.js" => ("mcp.example.com", "mcp-remote"); "what stands for another server")]
#[test_case("/p/node_modules/.bin/mcp-dotenv -- node /srv/notes-mcp.js", 3, "other/index.js" => ("mcp-dotenv", "mcp-dotenv"); "a link among the arguments")]
fn a_configured_pattern_knows_the_package(
    line: &str,
    link: usize,
    target: &str,
) -> (&'static str, &'static str) {
    let argv = argv(line);
    let mut linked = argv.clone();
    linked[link] = format!("/p/node_modules/{target}");
    let names = |patterns: Option<&str>, custom: Option<&str>| {
        let globs = |glob: &str| vec![NameGlob::new(glob)];
        let rules = LaunchRules::new(
            patterns.map(globs),
            custom.map(globs).unwrap_or_default(),
            Vec::new(),
        );
        let launch = rules.detect_linked(&argv, &linked).expect("a server");
        (launch.server.to_string(), launch.name)
    };
    let by_path = names(Some("*/node_modules/.bin/mcp-*"), None);
    assert_eq!(by_path, names(None, Some("/p/node_modules/.bin/mcp-*")));
    (by_path.0.leak(), by_path.1.leak())
}

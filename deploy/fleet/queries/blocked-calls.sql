-- What was stopped, by host, server, tool and rule?
SELECT
    ResourceAttributes['host.name'] AS host,
    LogAttributes['mcpmon.server.id'] AS server,
    LogAttributes['gen_ai.tool.name'] AS tool,
    LogAttributes['mcpmon.rule.id'] AS rule,
    count() AS calls
FROM otel.otel_logs
WHERE ServiceName = 'mcpmon' AND LogAttributes['event.name'] = 'mcp_tool_call_intercepted'
    AND LogAttributes['mcpmon.verdict'] = 'block'
GROUP BY host, server, tool, rule
ORDER BY calls DESC, host, server, tool

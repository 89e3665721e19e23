-- How many starts of servers did a wrapper carry, by host?
SELECT
    ResourceAttributes['host.name'] AS host,
    countIf(LogAttributes['mcpmon.wrapped'] = 'true') AS wrapped,
    count() AS seen
FROM otel.otel_logs
WHERE ServiceName = 'mcpmon' AND LogAttributes['event.name'] = 'mcp_server_started'
GROUP BY host
ORDER BY host

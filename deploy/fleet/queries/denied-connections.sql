-- Where did servers try to connect and were refused?
SELECT
    ResourceAttributes['host.name'] AS host,
    LogAttributes['mcpmon.server.id'] AS server,
    LogAttributes['network.peer.address'] AS address,
    LogAttributes['network.peer.port'] AS port,
    LogAttributes['mcpmon.rule.id'] AS rule,
    count() AS connections
FROM otel.otel_logs
WHERE ServiceName = 'mcpmon' AND LogAttributes['event.name'] = 'mcp_network_connection'
    AND LogAttributes['mcpmon.verdict'] = 'block'
GROUP BY host, server, address, port, rule
ORDER BY connections DESC, host

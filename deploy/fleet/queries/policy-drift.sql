-- Which policy does each host run, and since when?
SELECT
    ResourceAttributes['host.name'] AS host,
    argMax(LogAttributes['mcpmon.hash'], Timestamp) AS policy,
    max(Timestamp) AS since
FROM otel.otel_logs
WHERE ServiceName = 'mcpmon' AND LogAttributes['event.name'] = 'policy_loaded'
GROUP BY host
ORDER BY policy, host

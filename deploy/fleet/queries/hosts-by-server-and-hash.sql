-- Which hosts ran this server, with this hash of its executable, script or package? Either parameter may be empty.
SELECT
    ResourceAttributes['host.name'] AS host,
    LogAttributes['mcpmon.server.id'] AS server,
    LogAttributes['mcpmon.server.exe_sha256'] AS exe_sha256,
    LogAttributes['mcpmon.server.script_sha256'] AS script_sha256,
    LogAttributes['mcpmon.server.package_sha256'] AS package_sha256,
    count() AS starts,
    max(Timestamp) AS last_start
FROM otel.otel_logs
WHERE ServiceName = 'mcpmon' AND LogAttributes['event.name'] = 'mcp_server_started'
    AND ({server:String} = '' OR server = {server:String})
    AND ({hash:String} = '' OR has([exe_sha256, script_sha256, package_sha256], {hash:String}))
GROUP BY host, server, exe_sha256, script_sha256, package_sha256
ORDER BY host, server

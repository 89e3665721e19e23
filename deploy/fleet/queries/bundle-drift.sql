-- Which hosts have another policy bundle than most, or do not enforce it?
WITH latest AS (
    SELECT
        ResourceAttributes['host.name'] AS host,
        argMax(ResourceAttributes['mcpmon.bundle.digest'], Timestamp) AS bundle,
        argMax(ResourceAttributes['mcpmon.bundle.serial'], Timestamp) AS serial,
        argMax(ResourceAttributes['mcpmon.enforcement.effective'], Timestamp) AS effective,
        max(Timestamp) AS heard
    FROM otel.otel_logs
    WHERE ServiceName = 'mcpmon'
    GROUP BY host
)
SELECT host, bundle, serial, effective, heard
FROM latest
WHERE bundle != (SELECT topK(1)(bundle)[1] FROM latest) OR effective != 'true'
ORDER BY bundle, host

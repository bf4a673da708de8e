package semconv

import "go.opentelemetry.io/otel/attribute"

// LinkKey is on every link, and says what the link leads to.
const LinkKey = attribute.Key("keyturn.link")

// Values of [LinkKey].
const (
	LinkBlockedBy  = "blocked_by"  // acquire: to the request that is in the way
	LinkExecutedBy = "executed_by" // once: to the execution whose result this is
)

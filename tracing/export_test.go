package tracing

// CachedRules says for how many rules start options are kept.
func CachedRules(o *Observer) int { return len(o.starts.known) }

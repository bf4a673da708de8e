package driver

// MaxClaims is how many claims the caller of an engine may put into one set. (The engine
// adds those of the levels above them: see core.WithHierarchy.) A lock server carries out
// one request at a time, so a set of a million keys would stop everybody's locks for
// seconds, and the set's size often comes from a request.
const MaxClaims = 4096

package driver

// Finding is what an operator should know of a backend: how a setting stands, or whether a part of the
// store's work succeeds. [Description].Examine returns them.
type Finding struct {
	About string // such as "maxmemory-policy" or "messages"
	Found string // how it stands; "": it could not be read
	// Risk says what may happen as it stands; "": nothing is wrong, or nothing is known.
	Risk   string
	Advice string // what to do about the risk
}

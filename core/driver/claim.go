package driver

// Mode says how a claim shares its key with others.
type Mode uint8

const (
	// ModeExclusive admits one lease at a time and excludes all other modes. It is the zero
	// value.
	ModeExclusive Mode = iota
	// ModeShared admits any number of shared leases together. It excludes the other modes.
	ModeShared
	// ModePermit admits at most N leases at a time. It excludes the other modes.
	ModePermit
)

// String returns "exclusive", "shared" or "permit".
func (m Mode) String() string {
	switch m {
	case ModeExclusive:
		return "exclusive"
	case ModeShared:
		return "shared"
	case ModePermit:
		return "permit"
	default:
		return "unknown mode"
	}
}

// Claim is a key with the mode in which it is wanted. Make one with
// [Exclusive], [Shared] or [Permit], or several with core.Under.
type Claim struct {
	Key  string
	Mode Mode
	// Permits is the number of leases admitted at a time; ModePermit only.
	Permits int
	// Flaw says what was wrong when the claim was made; Validate reports it. It completes the
	// sentence "claim x ...". "": nothing was wrong.
	Flaw string
}

// Exclusive claims key for one lease alone.
func Exclusive(key string) Claim { return Claim{Key: key} }

// Shared claims key together with other shared leases.
func Shared(key string) Claim { return Claim{Key: key, Mode: ModeShared} }

// Permit claims one of n permits of key.
func Permit(key string, n int) Claim { return Claim{Key: key, Mode: ModePermit, Permits: n} }

// Keys returns the keys of claims, in their order.
func Keys(claims []Claim) []string {
	keys := make([]string, len(claims))
	for i, c := range claims {
		keys[i] = c.Key
	}
	return keys
}

// Validate checks the key, the mode and the number of permits. It returns a [*KeyError], or an
// error that matches [ErrInvalidClaim].
func (c Claim) Validate() error {
	if err := ValidateKey(c.Key); err != nil {
		return err
	}
	switch {
	case c.Flaw != "":
		return &ClaimError{Key: c.Key, Reason: c.Flaw}
	case c.Mode > ModePermit:
		return &ClaimError{Key: c.Key, Reason: "has an unknown mode"}
	case c.Mode == ModePermit && c.Permits < 1:
		return &ClaimError{Key: c.Key, Reason: "asks for less than one permit"}
	case c.Mode != ModePermit && c.Permits != 0:
		return &ClaimError{Key: c.Key, Reason: "has permits but is not a permit claim"}
	}
	return nil
}

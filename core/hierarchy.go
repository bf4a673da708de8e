package core

import "strings"

// maxLevels is how many levels a key may have for [Under] and [WithHierarchy].
const maxLevels = 8

// Under claims a key with levels, such as one member of a group: the whole path exclusively, and
// every level above it shared.
//
//	lease, err := eng.AcquireAll(ctx, core.Under("group:7", "member:42"))
//
// So a holder of "group:7" excludes all holders of something under it, and holders of different
// members do not exclude each other. (J. Gray, R. Lorie, F. Putzolu and I. Traiger, Granularity of
// Locks in a Shared Data Base, 1975. An intention lock is a shared one here.)
//
// The segments are joined by "/". Each "/" ends a level, so Under("a/b", "c") is the same as
// Under("a", "b", "c"). A path has at most 8 levels, and none may be empty; otherwise the
// acquisition's error matches ErrInvalidClaim. Pass segments that come from outside through
// keytmpl.Escape, because a "/" in them would add a level. Several paths in one call share levels,
// which a set can't have twice: use [WithHierarchy] instead.
func Under(path ...string) []Claim {
	return levels(Exclusive(strings.Join(path, "/")))
}

// levels returns leaf after a shared claim on each level above it.
func levels(leaf Claim) []Claim {
	switch n := strings.Count(leaf.Key, "/"); {
	case n == 0:
		return []Claim{leaf}
	case n >= maxLevels:
		leaf.Flaw = "has more than 8 levels"
		return []Claim{leaf}
	case strings.Contains("/"+leaf.Key+"/", "//"):
		leaf.Flaw = "has an empty level"
		return []Claim{leaf}
	}
	var claims []Claim
	for i, c := range []byte(leaf.Key) {
		if c == '/' {
			claims = append(claims, Shared(leaf.Key[:i]))
		}
	}
	return append(claims, leaf)
}

// merge gives each key one claim. If a key is wanted in two modes, neither may be enough for
// both purposes, so the claim becomes exclusive.
func merge(claims []Claim) []Claim {
	at := make(map[string]int, len(claims))
	merged := make([]Claim, 0, len(claims))
	for _, c := range claims {
		i, found := at[c.Key]
		switch {
		case !found:
			at[c.Key] = len(merged)
			merged = append(merged, c)
		case merged[i] != c && c.Flaw == "":
			merged[i] = Exclusive(c.Key)
		}
	}
	return merged
}

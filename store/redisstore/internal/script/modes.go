package script

import (
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/core/driver"
)

// modes writes the modes of claims for the scripts.
func modes(claims []driver.Claim) string {
	if len(claims) == 1 && claims[0].Mode == driver.ModeExclusive {
		return "x" // most claims are
	}
	var b strings.Builder
	for _, c := range claims {
		b.WriteString(letter(c.Mode))
		if c.Mode == driver.ModePermit {
			b.WriteString(strconv.Itoa(c.Permits))
		}
	}
	return b.String()
}

func letter(m driver.Mode) string {
	switch m {
	case driver.ModeShared:
		return "s"
	case driver.ModePermit:
		return "p"
	default:
		return "x"
	}
}

func modeOf(letter string) driver.Mode {
	switch letter {
	case "s":
		return driver.ModeShared
	case "p":
		return driver.ModePermit
	default:
		return driver.ModeExclusive
	}
}

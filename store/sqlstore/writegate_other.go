//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlstore

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func unlock(*os.File) {}

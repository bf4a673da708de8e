// Package history has what several processes wrote down, and the checks of it. The checks are
// functions of a history alone.
package history

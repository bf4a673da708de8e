// Package recipes has rules in frameworks that have no middleware package of their own: Echo v5, Kratos, go-zero and
// watermill. Copy what you need. chi takes lockhttp's middleware as it is.
package recipes

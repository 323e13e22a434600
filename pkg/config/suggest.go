package config

import "strings"

// shorten keeps a value readable in a one-line message.
func shorten(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// nearest is the candidate that a typing error most likely meant, or "".
func nearest(word string, candidates []string) string {
	// Over long lists the guess is worth less and costs more.
	const maxCandidates, maxLength = 200, 64
	if len(candidates) > maxCandidates || len(word) > maxLength {
		return ""
	}
	best, bestDistance := "", 3
	for _, c := range candidates {
		if strings.EqualFold(word, c) {
			return c
		}
		if d := distance(word, c); d < bestDistance && d < len(word) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the single-byte edits between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

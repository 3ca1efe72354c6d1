"""Fake hardware and fake surroundings: public, documented, usable without pytest.

Whatever a fake does wrong on purpose is asked for by name. Fakes know the wire (`drahealth.proto`) and nothing of the
manager: what stands in for a kubelet's device manager is handed in through a small Protocol.
"""

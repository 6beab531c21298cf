"""What all proofs share: objectives, certificates and their verification, pools of workers."""
